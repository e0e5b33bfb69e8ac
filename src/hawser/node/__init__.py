"""Nodes: machines to act on. Subprocesses and netlink are used here and nowhere below."""
