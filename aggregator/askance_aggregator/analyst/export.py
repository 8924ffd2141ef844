"""A study in one file: what was signed, what was recorded, what came of it.

{"format": "askance export v1", "study": HEX, "public_key": HEX, "signature": HEX,
 "transcript": [LINE, ...], "result": {...}}

The transcript's lines are kept as they are, for their digest is over their bytes. The result is
null while the study is open. That of one epoch of a repeated study has "epoch" too, its index; the
export of all its epochs is

{"format": "askance epochs export v1", "study": HEX, "public_key": HEX, "signature": HEX,
 "epochs": [{"epoch": INDEX, "transcript": [LINE, ...], "result": {...}}, ...], "result": {...}}

A collection has "counts" too, {"public_key": HEX, "signature": HEX}, where the aggregator has
signed its transcript (see `signed_counts`).

Either has "reports_deleted_unix_s" too, where the aggregator has deleted the study's reports, and
"population": {"tags": [TAG, ...], "salt": HEX} where the study asks devices with these tags only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from askance_aggregator.analyst.signed_counts import CountsSignature
from askance_aggregator.store import TaggedPopulation
from askance_aggregator.studies.population import population_json, population_of_json
from askance_aggregator.studies.results import date_of
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter, InvalidRecord, StoreError
from askance_client.ledger import SECONDS_PER_DAY
from askance_client.messages import SignedStudy
from askance_client.printable import value_text

FORMAT = "askance export v1"
SERIES_FORMAT = "askance epochs export v1"
_DELETED = "reports_deleted_unix_s"
_POPULATION = "population"
_COUNTS = "counts"
_SIGNED = ("study", "public_key", "signature")
_KEYS = ("format", *_SIGNED, "transcript", "result")
_SERIES_KEYS = ("format", *_SIGNED, "epochs", "result")
_EPOCH_KEYS = ("epoch", "transcript", "result")


@dataclass(frozen=True, slots=True)
class StudyExport:
    """A study's export.

    Args:
      result: how it ended; None: it is open.
      epoch: index of the epoch that the transcript and the result are of; 0: it collects once.
      reports_deleted_unix_s: the time at which the aggregator deleted reports; 0: they are kept.
      population: the tags of the devices that it asks; None: all devices.
      counts: the aggregator's signature under the transcript; None: it has none.
    """

    signed: SignedStudy
    lines: tuple[str, ...]
    result: dict[str, Any] | None
    epoch: int = 0
    reports_deleted_unix_s: int = 0
    population: TaggedPopulation | None = None
    counts: CountsSignature | None = None

    @property
    def digest(self) -> bytes:
        """The study's name."""
        return digest_of(self.signed.study)

    @property
    def deletion(self) -> tuple[str, ...]:
        """Statement of the aggregator that it deleted the reports; none while it keeps them."""
        if not self.reports_deleted_unix_s:
            return ()
        day = date_of(self.reports_deleted_unix_s // SECONDS_PER_DAY)
        return (f"the deletion of the reports on {day}, which the aggregator states",)

    @property
    def opened(self) -> tuple[str, ...]:
        """Line about the commitment that was opened; none for a study of all devices."""
        if self.population is None:
            return ()
        return (f"the population, {self.population}: these tags and no others were signed",)

    @property
    def tagging(self) -> tuple[str, ...]:
        """Statement of the aggregator about tagged devices; none for a study of all devices."""
        if self.population is None:
            return ()
        return ("which devices have the tags, and that only these were asked: the operator's word",)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; one that is there is replaced.

        Raises:
          StoreError: it cannot be written.
        """
        content = {
            "format": FORMAT,
            **_signed_json(self.signed),
            **({"epoch": self.epoch} if self.epoch else {}),
            **_deleted_json(self.reports_deleted_unix_s),
            **_population_json(self.population),
            **_counts_json(self.counts),
            "transcript": list(self.lines),
            "result": self.result,
        }
        _write(content, path)

    @classmethod
    def read(cls, path: Path) -> StudyExport:
        """Read the file; `verification` decides whether to trust it.

        Raises:
          InvalidRecord: no such file, or not an export of one collection.
        """
        found = read_export(path)
        if not isinstance(found, StudyExport):
            raise InvalidRecord(f"export {path}: expected one collection, got a series of epochs")
        return found


@dataclass(frozen=True, slots=True)
class SeriesExport:
    """Export of all epochs of a repeated study that have ended, in order of time.

    The state in its result, a summary, is "open" while the study goes on.
    """

    signed: SignedStudy
    epochs: tuple[StudyExport, ...]
    result: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write the file (see `StudyExport.write`)."""
        epochs = [
            {
                "epoch": one.epoch,
                **_counts_json(one.counts),
                "transcript": list(one.lines),
                "result": one.result,
            }
            for one in self.epochs
        ]
        content = {
            "format": SERIES_FORMAT,
            **_signed_json(self.signed),
            **_deleted_json(max((one.reports_deleted_unix_s for one in self.epochs), default=0)),
            **_population_json(next((one.population for one in self.epochs), None)),
            "epochs": epochs,
            "result": self.result,
        }
        _write(content, path)


def read_export(path: Path) -> StudyExport | SeriesExport:
    """Read an export of one collection or of all epochs; `verification` decides on its content.

    Raises:
      InvalidRecord: no such file, or not an export.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidRecord(f"export {path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidRecord(f"export {path}: expected JSON, got other text") from None
    return _parsed(content, f"export {path}")


def result_of(text: str, what: str) -> dict[str, Any] | None:
    """The one object of a result's JSON, else InvalidRecord; None where there is no text yet."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidRecord(f"{what}: expected a result that is one JSON object, got other text")
    return found


def _parsed(content: Any, what: str) -> StudyExport | SeriesExport:
    found = content.get("format") if isinstance(content, dict) else None
    if found == SERIES_FORMAT:
        return _parsed_series(content, what)
    if found != FORMAT:
        # The file may be any: one of records, say, whose values are not to be shown.
        raise InvalidRecord(f"{what}: expected the format {FORMAT!r}, got another")
    epoch, deleted = content.pop("epoch", 0), _pop_deleted(content, what)
    population, counts = _pop_population(content, what), _pop_counts(content, what)
    _check_keys(content, _KEYS, what)
    found = _collection(_signed(content, what), {**content, "epoch": epoch}, what, deleted)
    return replace(found, population=population, counts=counts)


def _parsed_series(content: Any, what: str) -> SeriesExport:
    deleted, population = _pop_deleted(content, what), _pop_population(content, what)
    _check_keys(content, _SERIES_KEYS, what)
    signed, epochs, result = _signed(content, what), content["epochs"], content["result"]
    if not isinstance(epochs, list) or not isinstance(result, dict):
        raise InvalidRecord(f"{what}: expected a list of epochs and one object as the result")
    found: list[StudyExport] = []
    for one in epochs:
        place = f"{what}: epoch {len(found) + 1}"
        if not isinstance(one, dict):
            raise InvalidRecord(f"{place}: expected an object, got {type(one).__name__}")
        counts = _pop_counts(one, place)
        _check_keys(one, _EPOCH_KEYS, place)
        collected = _collection(signed, one, place, deleted)
        found.append(replace(collected, population=population, counts=counts))
    return SeriesExport(signed, tuple(found), result)


def _collection(
    signed: SignedStudy, content: Any, what: str, reports_deleted_unix_s: int
) -> StudyExport:
    lines, result, epoch = content["transcript"], content["result"], content["epoch"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InvalidRecord(f"{what}: expected the transcript's lines, got {type(lines).__name__}")
    if result is not None and not isinstance(result, dict):
        raise InvalidRecord(
            f"{what}: expected one object as the result, got {type(result).__name__}"
        )
    if type(epoch) is not int:
        raise InvalidRecord(f"{what}: expected an epoch's index, got {type(epoch).__name__}")
    return StudyExport(signed, tuple(lines), result, epoch, reports_deleted_unix_s)


def _pop_deleted(content: dict[str, Any], what: str) -> int:
    """Remove the time of deletion from an export's content and return it; 0: there is none."""
    found = content.pop(_DELETED, None)
    if found is None:
        return 0
    if type(found) is not int or found <= 0:
        raise InvalidRecord(
            f"{what}: expected {_DELETED} in whole seconds above 0, got {value_text(found)}"
        )
    return found


def _pop_population(content: dict[str, Any], what: str) -> TaggedPopulation | None:
    """Remove the population from an export's content and return it; None: there is none."""
    if _POPULATION not in content:
        return None
    try:
        return population_of_json(content.pop(_POPULATION))
    except InvalidParameter as error:
        raise InvalidRecord(f"{what}: {error}") from None


def _pop_counts(content: dict[str, Any], what: str) -> CountsSignature | None:
    """Remove the aggregator's signature from an export's content and return it, if any."""
    if _COUNTS not in content:
        return None
    found, names = content.pop(_COUNTS), ("public_key", "signature")
    if not isinstance(found, dict):
        raise InvalidRecord(f"{what}: {_COUNTS}: expected an object, got {type(found).__name__}")
    _check_keys(found, names, f"{what}: {_COUNTS}")
    return CountsSignature(*(_bytes(found[name], f"{what}: {_COUNTS}") for name in names))


def _counts_json(counts: CountsSignature | None) -> dict[str, Any]:
    if counts is None:
        return {}
    return {_COUNTS: {"public_key": counts.public_key.hex(), "signature": counts.signature.hex()}}


def _population_json(population: TaggedPopulation | None) -> dict[str, Any]:
    return {} if population is None else {_POPULATION: population_json(population)}


def _deleted_json(reports_deleted_unix_s: int) -> dict[str, int]:
    return {_DELETED: reports_deleted_unix_s} if reports_deleted_unix_s else {}


def _check_keys(content: Mapping[str, Any], keys: tuple[str, ...], what: str) -> None:
    if sorted(content) != sorted(keys):
        odd = min(set(content) ^ set(keys))
        found = f"no {odd!r}" if odd in keys else repr(odd)
        raise InvalidRecord(f"{what}: expected {', '.join(keys)}, got {found}")


def _signed(content: Mapping[str, Any], what: str) -> SignedStudy:
    return SignedStudy(*(_bytes(content[name], f"{what}: {name}") for name in _SIGNED))


def _signed_json(signed: SignedStudy) -> dict[str, str]:
    return {name: getattr(signed, name).hex() for name in _SIGNED}


def _write(content: dict[str, Any], path: Path) -> None:
    """Write a file whole or not at all."""
    if not path.name:
        raise StoreError(f"export {path}: cannot be written: it names no file")
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, ensure_ascii=False, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"export {path}: cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def _bytes(text: Any, what: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise InvalidRecord(
            f"{what}: expected bytes in hexadecimal, got {type(text).__name__}"
        ) from None
