"""Two guarantees in words: towards the aggregator, and towards readers of a result.

Every command, page and notebook that states them takes the sentences from here. What they cover is
explained in docs/explanations/two_guarantees.md, and proved in docs/math/two_guarantees.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askance_aggregator.reports.figures import delta_text, most_text, share_text, whole_nats_text

RESULT = "this result"
OUTER_KEYS = ("outer", "outer_so_far", "outer_signed")
"""Keys of a result, or of an epoch's, that state a guarantee towards readers."""


def guarantees_text(local: float, outer: Mapping[str, Any] | None, read: str = RESULT) -> str:
    """State both guarantees in a sentence; the first alone where the second does not hold.

    Args:
        local: epsilon of all reports of a user, in nats: what devices charged at most.
        outer: as a result's JSON has it, with `epsilon`, `delta`, `answers` and `liars` (a share),
            and `other_tallies` where answers were reused.
            None, or one that is no less than `local`: readers are promised no more.
        read: what its readers see: "this result".
    """
    first = f"Towards the aggregator: at most epsilon {whole_nats_text(local)}"
    if outer is None or outer["epsilon"] >= local:
        return f"{first}; towards readers of {read}: no less is promised."
    others = outer.get("other_tallies", 0)
    if others:
        tallies = "1 other tally" if others == 1 else f"{others:,} other tallies"
        read = f"{read} and of {tallies} of its answers"
    return (
        f"{first}; towards readers of {read}: {_bound_text(outer)}"
        f" ({outer['answers']:,} answers{_liars_text(outer)})."
    )


def series_guarantee_text(result: Mapping[str, Any]) -> str:
    """State what readers of all results of a repeated study so far are promised.

    Args:
        result: of an epoch, or the summary of the study: with `outer_so_far` and `outer_signed`
            where these hold.

    Returns:
        A sentence or two; empty for a study that collects once.
    """
    so_far, signed = result.get("outer_so_far"), result.get("outer_signed")
    sentences = []
    if so_far is not None:
        several = so_far["results"] > 1
        which = f"all {so_far['results']:,} results" if several else "the first result"
        sentences.append(
            f"Towards readers of {which} of this study so far, whatever ends it:"
            f" {_bound_text(so_far)} ({so_far['answers']:,} answers or more to each question"
            f"{_liars_text(so_far)})."
        )
    elif result.get("number", 1) > 1:
        sentences.append(
            "Towards readers of all results of this study so far: no less is promised than towards"
            " the aggregator."
        )
    if signed is not None:
        sentences.append(
            f"Of all {signed['results']:,} that are signed, as long as each has"
            f" {signed['answers']:,} answers or more to every question: {_bound_text(signed)}."
        )
    return " ".join(sentences)


def _bound_text(outer: Mapping[str, Any]) -> str:
    return f"at most {most_text(outer['epsilon'])} at delta {delta_text(outer['delta'])}"


def _liars_text(outer: Mapping[str, Any]) -> str:
    return f", {share_text(outer['liars'])} of them assumed to lie" if outer["liars"] else ""
