"""History of a record whose source knows the present only: one value per epoch, in a private file.

A question about a path (the learner `trend`) needs the values of the last epochs. `KeptHistory`
keeps them for an application that has no dates of its own. When it looks at the record depends on
the application's calls and on the day, never on a value; nothing of it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from askance_client.durable_files import replace_whole
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text

_FORMAT = 1
_DAY_MS = 86_400_000
MAX_EPOCHS = 256


class KeptHistory:
    """Function for a device's records: the present record, and fields of the epochs before.

    Epoch i of `every_days` is the days i x every_days .. (i + 1) x every_days - 1 since 1970, UTC,
    as in a repeated study. For a field `busy` and T epochs the record has `busy_1` .. `busy_T`, the
    last of these for the epoch before the present one. So the record is the same for the whole of
    an epoch. An epoch's value is the last that was seen in it; an epoch without one has the value
    of the epoch before, and the first epochs have the first value there is.

    Args:
      record: returns the present record; called by `observe` and whenever the history is called.
      path: a file of its own; made with mode 0600, replaced whole, and kept over restarts. It holds
        the values of T + 1 epochs.
      fields: names of the fields whose values are kept: texts, numbers, booleans or None.
      every_days: days of an epoch, 1 or more.
      epochs: T, 1..256.
      wall_ms: milliseconds since 1970.

    Raises:
      InvalidParameter: no field, a number out of range, or a file of another history.
      InvalidRecord: the file is damaged.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from askance_client import KeptHistory
      >>> path = Path(tempfile.mkdtemp()) / "history.json"
      >>> now = [0]
      >>> value = ["no"]
      >>> history = KeptHistory(
      ...     lambda: {"busy": value[0]}, path, ["busy"], 7, 3, wall_ms=lambda: now[0]
      ... )
      >>> for week, value[0] in enumerate(["no", "no", "yes", "yes"]):
      ...     now[0] = week * 7 * 86_400_000
      ...     history.observe()
      >>> history()
      {'busy': 'yes', 'busy_1': 'no', 'busy_2': 'no', 'busy_3': 'yes'}
    """

    def __init__(
        self,
        record: Callable[[], Mapping[str, Any]],
        path: Path,
        fields: Sequence[str],
        every_days: int,
        epochs: int,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        if not fields or isinstance(fields, str):
            raise InvalidParameter(f"fields: expected one name or more, got {value_text(fields)}")
        if every_days < 1:
            raise InvalidParameter(f"every_days: expected 1 or more, got {every_days}")
        if not 1 <= epochs <= MAX_EPOCHS:
            raise InvalidParameter(f"epochs: expected 1..{MAX_EPOCHS}, got {epochs}")
        self._record = record
        self._path = path
        self._fields = tuple(fields)
        self._every, self._epochs = every_days, epochs
        self._wall_ms = wall_ms
        self._lock = Lock()
        self._kept = self._read()

    def observe(self) -> None:
        """Look at the record now and keep its values for the present epoch.

        To be called at least once per epoch.

        Raises:
          Exception: the record's; nothing is kept.
          OSError: the file cannot be written; nothing is kept.
        """
        self()

    def __call__(self) -> dict[str, Any]:
        """Observe the record and return it with its history."""
        now = dict(self._record())
        with self._lock:
            present = self._wall_ms() // (self._every * _DAY_MS)
            self._keep(present, {name: now.get(name) for name in self._fields})
            return now | self._history(present)

    def _keep(self, present: int, values: Mapping[str, Any]) -> None:
        """Keep the values of an epoch, unless it is over: what was seen of a later one stands."""
        if self._kept and present < max(self._kept):
            return
        if self._kept.get(present) == values:
            return
        kept = {at: each for at, each in self._kept.items() if at >= present - self._epochs}
        if not any(at == present - self._epochs for at in kept):
            older = [at for at in self._kept if at < present - self._epochs]
            if older:  # the last value before counts for the epochs after it
                kept[present - self._epochs] = self._kept[max(older)]
        kept[present] = dict(values)
        self._write(kept)
        self._kept = kept

    def _history(self, present: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        known = sorted(self._kept)
        for place in range(1, self._epochs + 1):
            index = present - self._epochs + place - 1
            at = max((each for each in known if each <= index), default=known[0])
            for name in self._fields:
                found[f"{name}_{place}"] = self._kept[at][name]
        return found

    def _write(self, kept: Mapping[int, Mapping[str, Any]]) -> None:
        data = {
            "format": _FORMAT,
            "every_days": self._every,
            "fields": list(self._fields),
            "epochs": {str(at): values for at, values in sorted(kept.items())},
        }
        replace_whole(self._path, json.dumps(data, allow_nan=False).encode())

    def _read(self) -> dict[int, dict[str, Any]]:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            data = json.loads(text)
            kept = {
                int(at): {name: values[name] for name in data["fields"]}
                for at, values in data["epochs"].items()
            }
            found = (data["format"], data["every_days"], data["fields"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidRecord(
                f"{self._path}: expected a history's JSON, got other bytes; remove the file to"
                " begin a new history"
            ) from None
        expected = (_FORMAT, self._every, list(self._fields))
        if found != expected:
            raise InvalidParameter(
                f"{self._path}: expected a history of (format, every_days, fields) ="
                f" {value_text(expected)}, got {value_text(found)}: name another file"
            )
        return kept
