"""What is wanted: versions of the network, and the gateways' configurations that follow."""
