"""An export of a repeated study replayed offline: every epoch, and the summary over them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from askance_aggregator.analyst.export import SeriesExport, StudyExport, read_export
from askance_aggregator.analyst.verification import (
    Verification,
    VerificationFailed,
    alike,
    verify,
)
from askance_aggregator.store import StudyState
from askance_aggregator.studies.results import CANCELLED, End
from askance_aggregator.studies.series import end_of_series, series_json
from askance_client.codec import decode_study, digest_of
from askance_client.errors import AskanceError
from askance_client.messages import Repeat

_OPEN = End(StudyState.OPEN, "", "")


def verify_export(path: Path, analyst_keys: Collection[bytes] | None = None) -> Verification:
    """Verify an export in a file: of one collection (see `verify`), or of a repeated study.

    Raises:
      InvalidRecord: the file is none. VerificationFailed: it does not hold together.
    """
    found = read_export(path)
    if isinstance(found, StudyExport):
        return verify(found, analyst_keys)
    return verify_series(found, analyst_keys)


def verify_series(
    export: SeriesExport, analyst_keys: Collection[bytes] | None = None
) -> Verification:
    """Verify the export of a repeated study: each epoch by itself, then the summary.

    Args:
      export: the signed study, its epochs and its summary.
      analyst_keys: keys that may have signed the study; None: any key.

    Returns:
      The outcome; its transcript is a hash over the digests of the epochs' transcripts.

    Raises:
      VerificationFailed: the first thing that does not hold; the epoch is named.
    """
    found: list[Verification] = []
    for one in export.epochs:
        try:
            found.append(verify(one, analyst_keys))
        except VerificationFailed as error:
            raise VerificationFailed(f"epoch {one.epoch}: {error}") from None
    if not found:
        raise VerificationFailed("export: expected 1 epoch that has ended or more, got 0")
    terms = decode_study(export.signed.study)
    if terms.repeat is None:
        raise VerificationFailed("study: expected one that repeats, found one that collects once")
    end = _checked_end(export, terms.repeat)
    results = [one.result for one in export.epochs if one.result is not None]
    try:
        expected = series_json(digest_of(export.signed.study), terms, results, end)
    except (AskanceError, LookupError, TypeError, ValueError):
        raise VerificationFailed("result: expected the figures of its epochs") from None
    for name in sorted(expected.keys() | export.result.keys()):
        if not alike(expected.get(name), export.result.get(name)):
            raise VerificationFailed(f"result: expected {name} as of its epochs, found another")
    digests = "".join(f"{one.transcript}\n" for one in found)
    of_all = f"each epoch that has ended ({len(found)}): "
    return Verification(
        study=found[0].study,
        public_key=found[0].public_key,
        state=end.state.name.lower(),
        rounds=sum(one.rounds for one in found),
        answers=sum(one.answers for one in found),
        transcript="sha256:" + hashlib.sha256(digests.encode()).hexdigest(),
        checked=(
            *(of_all + line for line in found[0].checked),
            "the epochs, among those signed, each once, in order of time",
            "the sums over epochs: answers, reuse and the most that a user was asked for",
        ),
        believed=tuple(dict.fromkeys(line for one in found for line in one.believed)),
    )


def _checked_end(export: SeriesExport, repeat: Repeat) -> End:
    """Return the end that follows from the epochs; check that they are all there, in order."""
    indices = [one.epoch for one in export.epochs]
    if indices != sorted(set(indices)):
        raise VerificationFailed("export: expected epochs in order of time, each once")
    states = [_state(one.result) for one in export.epochs]
    stated = export.result.get("state")
    if stated == "open":
        return _OPEN
    if stated == "cancelled":
        return CANCELLED
    if indices != list(repeat.indices):
        raise VerificationFailed(f"export: expected {repeat.epochs} epochs, found {len(indices)}")
    return end_of_series(states)


def _state(result: dict[str, Any] | None) -> StudyState:
    """Return the state in an epoch's result, which was verified."""
    if result is None:
        raise VerificationFailed("export: expected epochs that have ended, found an open one")
    return StudyState[str(result["state"]).upper()]
