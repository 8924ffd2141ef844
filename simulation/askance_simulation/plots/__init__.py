"""Pictures of plans, simulations, sweeps and studies' results.

Rules of the package:

- A picture is made from rows or a shape and from nothing else, and is the same bytes for the same
  data. The shape of a hypothesis says which picture it is (`drawings`); no learner is named.
- Colours can be distinguished by all readers: Okabe and Ito's for names, viridis for numbers, and
  every line has a marker of its own beside its colour. A line below the picture explains the bands.
- An axis is logarithmic where its values are positive and span more than a factor of four, and
  its ticks show it. Errors of zero have no place on such an axis, so then it is linear.
- A picture that would say nothing is refused with the reason in one line.
- matplotlib is imported when something is drawn.
"""

from askance_simulation.plots.curves import curves, epsilon_curve, needs
from askance_simulation.plots.picture import Picture
from askance_simulation.plots.runs import result_picture

__all__ = ["Picture", "curves", "epsilon_curve", "needs", "result_picture"]
