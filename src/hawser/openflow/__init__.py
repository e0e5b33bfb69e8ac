r"""The OpenFlow controller (OFC): installs the flows of gateways' switches, reads their counters.

overlay.sdwan.flow      entries -> flows, as data
  |
state                   the flows that each switch should have, and its last counters
  |            \
application     service         os-ken's events; the control API
  |
session                 one connection: read, compare, install
  |
message                 flows -> OpenFlow 1.3 messages

text                    flows -> lines of ovs-ofctl, for gateways that start without a controller

errors                  limits, counts and forwards a switch's ICMP errors
  |
icmp                    error about a rewritten packet -> error about the original packet
"""
