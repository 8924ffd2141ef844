"""Reports for readers: values that a terminal prints and a notebook shows.

Rules of the package: a report is made of a result's JSON and a hypothesis's presentation, it knows
no medium, and its texts are plain; `html` and `askance.cli.output` escape them. Figures are rounded
in `figures` only.
"""
