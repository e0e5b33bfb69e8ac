"""Hawser: join branches over many paths, chain service functions, measure what it gives."""

__version__ = "0.1.0"
