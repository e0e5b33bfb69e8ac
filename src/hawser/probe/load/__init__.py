"""Loads made by `hawserd load` on the nodes of a lab."""
