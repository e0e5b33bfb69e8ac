r"""The OpenFlow controller (OFC): what gateways' switches do, and what they have counted.

overlay.sdwan.flow      entries -> flows, as data
  |
state                   what each switch should have, and what it said last
  |            \
application     service         os-ken's events; the control API
  |
session                 one connection: read, compare, install
  |
message                 flows -> OpenFlow 1.3 messages

errors                  a switch's ICMP errors: how many, and where to
  |
icmp                    one error about a rewritten packet -> one about the packet as it was
"""
