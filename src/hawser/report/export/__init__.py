"""What the author of a paper takes from a run: figures, tables, and a document with all of them.

Figures are drawn by matplotlib and written as SVG, PDF and PGF; tables as LaTeX and CSV. The page
`report.html` has figures of its own (`hawser.report.figures`).

`content`     what is drawn, from samples and rows
`strip`, `ecdf`, `heat_map`, `tradeoff`, `over_time`    one kind of figure each
`style`       sizes, colours, axes
`latex`       tables and document
`write`       the files
"""
