"""Published results beside those of runs: every table and figure of each publication."""
