"""Reports: a run read, judged, and shown as a page, a table, data or a picture.

`build.build` and `render.render` make the report of a run, `compare.compare` and
`comparison.render_comparison` set runs side by side. `text.renderable` and
`comparison.renderable_comparison` are for a terminal.
"""
