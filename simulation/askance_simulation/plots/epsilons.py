"""Users needed by epsilon, and the least epsilon from which on they are enough."""

from __future__ import annotations

from itertools import accumulate

from askance_aggregator.planning import StudyPlan
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure


def epsilon_curve(plan: StudyPlan, learner: str = "") -> Picture:
    """Draw the users that plans need by epsilon, of a plan whose epsilon follows from its users.

    Args:
      plan: with a curve (`ask.plan` without an epsilon, and with `curve=True` of the whole grid).
      learner: its name, for the title.

    Raises:
      InvalidParameter: the plan's epsilon was given, or every plan of the curve is refused.

    Example:
      >>> settings = {"tau": "0.05", "missing": "default"}
      >>> plan = ask.plan("mean", users=5_000, settings=settings, curve=True)
      >>> type(ask.epsilon_curve(plan, "mean")).__name__
      'Picture'
    """
    found = plan.curve
    if found is None:
        raise InvalidParameter("plot: expected a plan without a given epsilon, got one with it")
    planned = [
        (nano / NANO_NATS_PER_NAT, needed) for nano, needed in found.points if needed is not None
    ]
    if not planned:
        raise InvalidParameter("plot: expected an epsilon at which there is a plan, got none")
    epsilons, needs = zip(*planned, strict=True)
    figure = new_figure()
    axes = figure.add_subplot()
    axes.step(
        epsilons, _enough(needs), where="post", color=style.ACCENT, label="enough from there on"
    )
    axes.plot(epsilons, needs, ".", color=style.INK, markersize=4, label="planned")
    axes.axhline(found.users, color=style.QUIET, linestyle="--", label=f"{found.users:,} users")
    heading = f"users that {learner or 'the study'} needs by epsilon"
    if plan.feasible:
        axes.axvline(plan.epsilon, color=style.BAD, label=f"epsilon {plan.epsilon:.9g}")
    style.plain(axes, title=heading, across="ε, nats a user", up="users needed")
    if style.wide(epsilons):
        axes.set_xscale("log")
    if style.wide([*needs, found.users]):
        axes.set_yscale("log")
    style.logarithmic(axes)
    style.legend_beside(axes)
    style.caption(figure, f"grid of epsilons: {found.grid}")
    return Picture(figure)


def _enough(needs: tuple[int, ...]) -> list[int]:
    """Return for each epsilon the users that are enough for it and for every greater one."""
    return list(accumulate(reversed(needs), max))[::-1]
