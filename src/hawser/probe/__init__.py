"""Measurements: each runs one tool or reads counters, and gives samples."""
