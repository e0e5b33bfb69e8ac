"""Facts about cloud regions. The tables are written by tools/regions.py, from dated sources."""
