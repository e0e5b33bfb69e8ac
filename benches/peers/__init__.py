"""Tunnels that benches compare: each joins two namespaces in its own way."""
