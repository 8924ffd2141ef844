"""n x MSE against epsilon: ours, the limit and peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers_accuracy import Accuracy
from randomizer_cells import FrequencyRow
from randomizer_means import MeanRow

_COLOURS = {"minimax": "#b0653a", "conditional": "#0b6e99", "prior": "#3b8132"}
_PEERS = {"pure_ldp": "o", "multi_freq_ldpy": "s", "opendp": "^", "diffprivlib": "v"}
_GREY, _LIGHT = "#8a8a8a", "#c9b8d8"


def of_means(rows: Sequence[MeanRow], peers: Sequence[Accuracy], path: Path) -> None:
    """Draw one panel per group of users: theory as lines, measurements as points."""
    if not rows:
        return
    import matplotlib as mpl  # slow, and only needed here

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = list(dict.fromkeys(row.people for row in rows))
    figure, panels = plt.subplots(
        1, len(groups), figsize=(4.6 * len(groups), 4.4), sharey=True, squeeze=False
    )
    for axes, people in zip(panels[0], groups, strict=True):
        for objective, colour in _COLOURS.items():
            mine = [row for row in rows if (row.people, row.objective) == (people, objective)]
            eps = [row.eps for row in mine]
            axes.plot(eps, [row.theory for row in mine], color=colour, lw=1.2)
            axes.errorbar(
                eps,
                [row.n_mse for row in mine],
                [2 * row.n_mse_se for row in mine],
                fmt="o",
                ms=4,
                color=colour,
                label=objective,
            )
            if objective == "conditional":
                limit = [row.limit for row in mine]
                axes.plot(eps, limit, "k:", lw=1.4, label="limit, for any users")
        if people == "skewed":
            _of_peers(axes, [row for row in peers if row.question == "mean"])
        axes.set_title(f"mean: {people}", loc="left")
        _finish(axes)
    panels[0][0].set_ylabel("n x MSE")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def of_frequencies(rows: Sequence[FrequencyRow], peers: Sequence[Accuracy], path: Path) -> None:
    """Draw one panel per number of cells."""
    if not rows:
        return
    import matplotlib as mpl  # slow, and only needed here

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    sizes = list(dict.fromkeys(row.k for row in rows))
    figure, panels = plt.subplots(
        1, len(sizes), figsize=(4.6 * len(sizes), 4.4), sharey=True, squeeze=False
    )
    for axes, k in zip(panels[0], sizes, strict=True):
        mine = [row for row in rows if row.k == k]
        eps = [row.eps for row in mine]
        _of_peers(axes, [row for row in peers if (row.question, row.k) == ("frequency", k)])
        axes.plot(eps, [row.optimum for row in mine], "k:", lw=1.4, label="optimum")
        axes.plot(eps, [row.exact for row in mine], color="#0b6e99", lw=1.2)
        nearest = [row.projected_n_mse for row in mine]
        axes.plot(
            eps, nearest, "x--", color="#7fb4cc", ms=4, lw=1, label="ours, on the simplex, biased"
        )
        axes.errorbar(
            eps,
            [row.n_mse for row in mine],
            [2 * row.n_mse_se for row in mine],
            fmt="o",
            ms=4,
            color="#0b6e99",
            label="ours, raw",
            zorder=5,
        )
        axes.set_title(f"shares of {k:,} cells", loc="left")
        _finish(axes)
    panels[0][0].set_ylabel("n x MSE, averaged over cells")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _of_peers(axes: Any, rows: Sequence[Accuracy]) -> None:
    """Draw raw estimates in grey; clipped, projected or bounded ones, which are biased, pale."""
    for peer, marker in _PEERS.items():
        for raw, colour, what in ((True, _GREY, "raw"), (False, _LIGHT, "biased")):
            mine = [row for row in rows if row.peer == peer and (row.estimate == "raw") == raw]
            if mine:
                axes.plot(
                    [row.eps for row in mine],
                    [row.n_mse for row in mine],
                    marker,
                    color=colour,
                    ms=3.5,
                    label=f"{peer}, {what}",
                )


def _finish(axes: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("epsilon")
    axes.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    axes.legend(frameon=False, fontsize=7)
