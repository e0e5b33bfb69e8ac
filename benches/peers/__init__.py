"""Peers that benches compare: tunnels, forwarders, chains, generators and WAN emulators."""
