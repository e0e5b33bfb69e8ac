"""The SD-WAN: path groups, labels, priorities, and the flow entries of gateways' switches."""
