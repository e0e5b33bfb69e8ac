"""Client of the control API that the daemons serve."""
