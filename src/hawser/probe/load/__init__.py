"""Load generation with `hawserd load` on the nodes of a lab."""
