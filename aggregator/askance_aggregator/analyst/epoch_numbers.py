"""Epochs in the summary of a repeated study, as an aggregator has sent it."""

from __future__ import annotations

from typing import Any

from askance_client.errors import InvalidParameter, RemoteProtocolError


def collects_once(summary: dict[str, Any] | None) -> bool:
    """Return whether the result of a study itself is of one that collects once."""
    return summary is None or "epochs_signed" not in summary


def no_epochs(asked: str) -> InvalidParameter:
    """Return the refusal of epochs of a study that collects once."""
    return InvalidParameter(f"{asked}: expected a study that repeats, got one that collects once")


def epoch_indices(summary: dict[str, Any]) -> list[int]:
    """Return the indices of the epochs in a summary that an aggregator has sent.

    Raises:
      RemoteProtocolError: the summary names none.
    """
    try:
        return [int(one["epoch"]) for one in summary["epochs"]]
    except (LookupError, TypeError, ValueError):
        raise RemoteProtocolError("aggregator: expected the epochs of a study") from None


def epoch_index(summary: dict[str, Any] | None, number: int) -> int:
    """Return the index of the epoch of a number.

    Raises:
      InvalidParameter: the study has no such epoch.
    """
    if summary is None or collects_once(summary):
        raise no_epochs(f"epoch {number}")
    first, signed = summary.get("first_epoch"), summary["epochs_signed"]
    if type(first) is not int or type(signed) is not int:
        raise RemoteProtocolError("aggregator: expected the epochs of a study")
    if not 1 <= number <= signed:
        raise InvalidParameter(f"epoch: expected a number of 1 to {signed}, got {number}")
    return first + number - 1
