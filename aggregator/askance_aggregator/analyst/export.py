"""A study in one file: what was signed, what was recorded, what came of it.

{"format": "askance export v1", "study": HEX, "public_key": HEX, "signature": HEX,
 "transcript": [LINE, ...], "result": {...}}

The transcript's lines are kept as they are, for their digest is over their bytes. The result is
null while the study is open.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance_client.codec import digest_of
from askance_client.errors import InvalidRecord, StoreError
from askance_client.messages import SignedStudy

FORMAT = "askance export v1"
_KEYS = ("format", "study", "public_key", "signature", "transcript", "result")


@dataclass(frozen=True, slots=True)
class StudyExport:
    """A study's export.

    Args:
      signed: the study as it was signed.
      lines: the transcript's.
      result: how it ended; None: it is open.
    """

    signed: SignedStudy
    lines: tuple[str, ...]
    result: dict[str, Any] | None

    @property
    def digest(self) -> bytes:
        """The study's name."""
        return digest_of(self.signed.study)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; one that is there is replaced.

        Raises:
          StoreError: it cannot be written.
        """
        content = {
            "format": FORMAT,
            "study": self.signed.study.hex(),
            "public_key": self.signed.public_key.hex(),
            "signature": self.signed.signature.hex(),
            "transcript": list(self.lines),
            "result": self.result,
        }
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

    @classmethod
    def read(cls, path: Path) -> StudyExport:
        """Read the file; `verification` decides whether to trust it.

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
    """The one object of a result's JSON; None where there is no text yet.

    Raises:
      InvalidRecord: something else than an object.
    """
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidRecord(f"{what}: expected a result that is one JSON object, got other text")
    return found


def _parsed(content: Any, what: str) -> StudyExport:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        # The file may be any: one of records, say, whose values are not to be shown.
        raise InvalidRecord(f"{what}: expected the format {FORMAT!r}, got another")
    if sorted(content) != sorted(_KEYS):
        odd = min(set(content) ^ set(_KEYS))
        found = f"no {odd!r}" if odd in _KEYS else repr(odd)
        raise InvalidRecord(f"{what}: expected {', '.join(_KEYS)}, got {found}")
    lines, result = content["transcript"], content["result"]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InvalidRecord(f"{what}: expected the transcript's lines, got {type(lines).__name__}")
    if result is not None and not isinstance(result, dict):
        raise InvalidRecord(
            f"{what}: expected one object as the result, got {type(result).__name__}"
        )
    signed = SignedStudy(
        *(_bytes(content[name], f"{what}: {name}") for name in ("study", "public_key", "signature"))
    )
    return StudyExport(signed, tuple(lines), result)


def _bytes(text: Any, what: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise InvalidRecord(
            f"{what}: expected bytes in hexadecimal, got {type(text).__name__}"
        ) from None
