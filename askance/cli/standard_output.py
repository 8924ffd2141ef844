"""Standard output of a program, whose errors have its name."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "standard output"
"""File name of an OSError that is one of writing standard output."""

ESCAPED = "askance-escaped"
"""Name of the handler of characters that an encoding lacks, such as that of an ASCII terminal."""


class _StandardOutput(io.FileIO):
    """The descriptor of standard output; it stays open when this is closed."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # any buffer
        """Write as a file does."""
        try:
            return super().write(data)
        except OSError as error:
            # The interpreter would try again when it ends, and report that it cannot.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise OSError(error.errno, error.strerror, NAME) from None


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return the escapes of JSON, which are plain in a text too, for what cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(ESCAPED, _escaped)


@contextmanager
def named_output() -> Iterator[None]:
    """Write to standard output in such a way that its errors are told from those of other files.

    A standard output that is replaced, as by a test, is left as it is.
    """
    usual = sys.__stdout__
    if usual is None or sys.stdout is not usual:
        yield
        return
    usual.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_StandardOutput(usual.fileno())),
        encoding=usual.encoding,
        errors=ESCAPED,
        line_buffering=usual.line_buffering,
    )
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout = usual
