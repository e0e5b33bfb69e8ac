"""The SD-WAN: path groups, labels, priorities, and the entries of the gateways' switches."""
