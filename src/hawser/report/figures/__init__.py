"""Figures. Each is laid out once as a scene of simple shapes, then written as SVG or PNG."""
