"""Figures of the page, each laid out once as a scene of shapes, then written as SVG or PNG.

They are drawn by hand because the page chooses their colours (light, dark, print) and one of two
widths after they are drawn, and has no scripts: tooltips and text alternatives are in the SVG. What
no page needs, `hawser.report.export` draws with matplotlib.
"""
