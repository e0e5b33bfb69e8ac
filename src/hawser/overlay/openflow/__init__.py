"""The OpenFlow kind of the gateways' switch, as data: ports, flow entries, and what a node is then.

 gateway's stack (multipath agent)
    mpa_0          mpa_1            hold the WAN addresses
      |              |
    ofs_0          ofs_1
+---------------------------+
|   OFS (bridge `ofs_br`)   |------ OpenFlow 1.3 ------ OpenFlow controller
+---------------------------+
      |              |
      a              b              WAN ports, shaped
"""

from hawser.overlay.openflow.flow import Flow, Value, flows, leaves
from hawser.overlay.openflow.network import switched
from hawser.overlay.openflow.switch import ControllerConfig, OpenFlowPort, OpenFlowSwitch

__all__ = [
    "ControllerConfig",
    "Flow",
    "OpenFlowPort",
    "OpenFlowSwitch",
    "Value",
    "flows",
    "leaves",
    "switched",
]
