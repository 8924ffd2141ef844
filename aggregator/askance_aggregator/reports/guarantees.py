"""Two guarantees in words: towards the aggregator, and towards readers of a result.

Every command, page and notebook that states them takes the sentences from here. What they cover is
explained in docs/explanations/two_guarantees.md, and proved in docs/math/two_guarantees.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askance_aggregator.reports.figures import delta_text, most_text, share_text, whole_nats_text

RESULT = "this result"


def guarantees_text(local: float, outer: Mapping[str, Any] | None, read: str = RESULT) -> str:
    """State both guarantees in a sentence; the first alone where the second does not hold.

    Args:
        local: epsilon of all reports of a user, in nats: what devices charged at most.
        outer: as a result's JSON has it, with `epsilon`, `delta`, `answers` and `liars` (a share).
            None, or one that is no less than `local`: readers are promised no more.
        read: what its readers see: "this result".
    """
    first = f"Towards the aggregator: at most epsilon {whole_nats_text(local)}"
    if outer is None or outer["epsilon"] >= local:
        return f"{first}; towards readers of {read}: no less is promised."
    liars = f", {share_text(outer['liars'])} of them assumed to lie" if outer["liars"] else ""
    return (
        f"{first}; towards readers of {read}: at most {most_text(outer['epsilon'])} at delta"
        f" {delta_text(outer['delta'])} ({outer['answers']:,} answers{liars})."
    )
