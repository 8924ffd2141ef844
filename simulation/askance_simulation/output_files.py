"""Files of results: written whole or not at all, with one error that names the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of these bytes; one that is there is replaced."""
    with replaced(path) as partial:
        partial.write_bytes(data)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give the path of a partial file beside `path`, which becomes `path` if the block succeeds."""
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        number = error.errno or errno.EIO  # pyarrow's own errors have none
        raise OSError(number, os.strerror(number), str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
