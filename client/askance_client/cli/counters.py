"""Counter of a device outside its folder: a second mark on another volume, or a command's number.

A folder that is put back whole has a mark that fits. A counter that is not put back with it shows
that the ledger is older than it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from askance_client.cli.record_settings import command_words
from askance_client.durable_files import replace_whole
from askance_client.errors import InvalidParameter, StoreError, StoreFailed
from askance_client.ledger.mark import High, LedgerCounter, Mark, new_mark
from askance_client.printable import value_text
from askance_client.records import ReadLimits, SourceFailed
from askance_client.records.processes import CommandReader
from askance_client.service import steady_ms, system_now_ms

_TIME_MS = 10_000  # of a command; every answer waits for it
_DIGITS = 18  # of a number that a ledger can hold


@dataclass(frozen=True, slots=True)
class CounterFile:
    """File of a counter, written as a mark is."""

    path: Path

    def open(self, made: High | None) -> LedgerCounter:
        """Open the counter (see `CounterPlace`)."""
        if not self.path.exists():
            if made is None:
                raise StoreError(
                    f"counter {self.path}: expected a file, found no file (is its volume mounted?)"
                )
            replace_mark(self.path, made)  # a crash leaves a whole one or none
        return Mark.open(self.path)

    def read(self) -> int:
        """Return the place that the rows of an accepted loss have to pass: any, in a new file."""
        return 0

    def replace(self, high: High) -> None:
        """Put the counter at this place, after the owner has accepted a loss."""
        replace_mark(self.path, high)


class CounterCommand:
    """Command that raises a counter to at least the number that is its last argument.

    It prints the counter's number afterwards; raised to at least 0, the number as it is. The number
    tells nothing of the ledger's id and of the row's hash.
    """

    def __init__(self, words: tuple[str, ...], folder: Path) -> None:
        self._words = words
        self._folder = folder
        self.high = High(b"", 0, b"")

    def open(self, made: High | None) -> LedgerCounter:
        """Read the counter (see `CounterPlace`)."""
        self.high = High(b"", self.read(), b"")
        return self

    def read(self) -> int:
        """Return the place that the rows of an accepted loss have to pass."""
        return self._raised(0)

    def replace(self, high: High) -> None:
        """Raise the counter to this place, after the owner has accepted a loss."""
        self.advance(high.place, high.chained)

    def advance(self, place: int, chained: bytes) -> None:
        found = self._raised(place)
        if found != place:
            raise StoreError(f"counter: charged, nothing was sent: expected {place}, got {found}")
        self.high = High(b"", place, b"")

    def close(self) -> None:
        """Do nothing: no process is left."""

    def _raised(self, number: int) -> int:
        """Raise the counter and return its number."""
        reader = CommandReader((*self._words, str(number)), self._folder)
        try:
            output = reader.output(ReadLimits(_TIME_MS, steady_ms, system_now_ms)).strip()
        except SourceFailed as failure:
            raise StoreError(f"counter: {failure}") from None
        if not output.isdigit() or len(output) > _DIGITS:
            text = value_text(output.decode("ascii", "replace"))
            raise StoreError(f"counter: {reader.place}: expected a number, got {text}")
        return int(output)


OwnCounter: TypeAlias = CounterFile | CounterCommand


def a_counter(text: str, folder: Path) -> OwnCounter:
    """Read command:WORDS, or the path of a file on another volume.

    Relative paths are relative to `folder`, the device's.

    Raises:
        InvalidParameter: no words, or a file in the folder.
    """
    word, _, command = text.partition(":")
    if word == "command":
        return CounterCommand(command_words(command), folder)
    path = folder.joinpath(text)
    if path.resolve().is_relative_to(folder.resolve()):
        raise InvalidParameter(f"expected a file outside {folder}, got {value_text(text)}")
    return CounterFile(path)


def replace_mark(path: Path, high: High) -> None:
    """Put a new mark at `path`, whole or not at all."""
    try:
        replace_whole(path, new_mark(high))
    except OSError as error:
        raise StoreFailed(f"mark {path}: cannot be written: {error.strerror}") from None
