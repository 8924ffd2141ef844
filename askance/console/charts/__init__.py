"""Charts as SVG, made by the server; each has a table of the same numbers beside it.

Colours are classes of the file of styles, since the policy of contents allows no style in a page.
"""
