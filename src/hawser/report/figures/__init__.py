"""Figures: laid out once as scenes of simple shapes, then written as SVG or as pixels."""
