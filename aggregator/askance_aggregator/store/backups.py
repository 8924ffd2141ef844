"""Backup of a store in one file: parts of its content, and a manifest of their digests.

The file is a zip archive of 64 bits. `manifest.json`, written last, has the format, the kind of the
store, its schema's version, the time, and per part its size, SHA-256 and columns. A file is made
beside and linked into place when it is whole and on the disk; nothing is overwritten. Parts are
streamed in both directions, so that memory does not grow with the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from askance_client.durable_files import sync
from askance_client.errors import StoreError, UnsupportedStore
from askance_client.printable import value_text

FORMAT = "askance backup v1"
CHUNK_BYTES = 1 << 20
_MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 20
_LEVEL = 1  # reports are random bits, which no level makes smaller
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError)


@dataclass(frozen=True, slots=True)
class BackupPart:
    """A part of a backup.

    Args:
      name: in the archive.
      size: bytes, not compressed.
      sha256: digest of these, in hexadecimal.
      columns: of a table, in the order in which its rows have them; none for another part.
    """

    name: str
    size: int
    sha256: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of a backup.

    Args:
      kind: of the store: "sqlite" or "postgresql".
      schema: version of the store's schema.
      at_unix_s: the time of the backup; the store is as it was then or shortly after.
      parts: in the order in which they are restored.
    """

    kind: str
    schema: int
    at_unix_s: int
    devices: int
    studies: int
    parts: tuple[BackupPart, ...]

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {"format": FORMAT, **asdict(self)}


@dataclass(frozen=True, slots=True)
class RestoreNote:
    """A restoration of a backup into a store: its time, and that of the backup, in Unix seconds."""

    restored_unix_s: int
    backup_unix_s: int


class BackupWriter:
    """A backup that is being written; made by `writing`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._parts: list[BackupPart] = []

    def add(
        self, name: str, chunks: Iterable[bytes | memoryview], columns: tuple[str, ...] = ()
    ) -> None:
        """Add a part, a chunk at a time."""
        size, digest = 0, hashlib.sha256()
        with self._archive.open(name, "w", force_zip64=True) as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        self._parts.append(BackupPart(name, size, digest.hexdigest(), columns))

    def finish(
        self, kind: str, schema: int, *, at_unix_s: int, devices: int, studies: int
    ) -> Manifest:
        """Write the manifest, and return it."""
        manifest = Manifest(kind, schema, at_unix_s, devices, studies, tuple(self._parts))
        self._archive.writestr(_MANIFEST, json.dumps(manifest.to_json()))
        return manifest


def write_backup(path: Path, fill: Callable[[BackupWriter], Manifest]) -> Manifest:
    """Write a backup of mode 0600, whole or not at all; `fill` adds the parts and finishes.

    Raises:
      StoreError: something is there already, or the disk says no; nothing is left.
    """
    if path.exists():
        raise StoreError(f"backup {path}: expected no file there yet, got one")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                with zipfile.ZipFile(
                    file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL
                ) as archive:
                    manifest = fill(BackupWriter(archive))
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, path)
            sync(path.parent)
        finally:
            with suppress(OSError):
                beside.unlink()
    except FileExistsError:
        raise StoreError(f"backup {path}: expected no file there yet, got one") from None
    except OSError as error:
        raise StoreError(f"backup {path}: cannot be written: {error.strerror}") from None
    return manifest


class BackupFile:
    """A backup whose manifest was read; made by `open_backup`.

    Its methods raise StoreError if a part is damaged, or the backup does not fit a store.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._archive = archive

    def chunks(self, part: BackupPart) -> Iterator[bytes]:
        """Yield a part's content, and compare it with the manifest at its end."""
        size, digest = 0, hashlib.sha256()
        try:
            with self._archive.open(part.name) as file:
                while chunk := file.read(CHUNK_BYTES):
                    size += len(chunk)
                    digest.update(chunk)
                    yield chunk
        except _BROKEN as error:
            raise _damaged(self.path, f"{part.name}: {error}") from None
        if (size, digest.hexdigest()) != (part.size, part.sha256):
            raise _damaged(self.path, f"{part.name} of another digest")

    def verify(self) -> None:
        """Read all parts and compare them with the manifest."""
        for part in self.manifest.parts:
            for _ in self.chunks(part):
                pass

    def check(self, kind: str, schema: int) -> None:
        """Check that it is of this kind of store, and of no newer version of the schema."""
        found = self.manifest
        if found.kind != kind:
            raise StoreError(
                f"backup {self.path}: expected one of a {kind} store, got one of a {found.kind}"
                " store (restore it into a store of its own kind)"
            )
        if not 1 <= found.schema <= schema:
            raise UnsupportedStore(
                f"backup {self.path}: expected a schema of version {schema} at most, got"
                f" {found.schema} (install an askance of the version that wrote it, or a newer one)"
            )


@contextmanager
def open_backup(path: Path) -> Iterator[BackupFile]:
    """Open a backup and read its manifest.

    Raises:
      StoreError: no file, no backup, truncated or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            with archive.open(_MANIFEST) as file:
                content = file.read(_MAX_MANIFEST_BYTES)
            yield BackupFile(path, archive, _manifest(content, path))
    except OSError as error:
        raise StoreError(f"backup {path}: cannot be read: {error.strerror}") from None
    except _BROKEN as error:
        raise _damaged(path, str(error)) from None


def _manifest(content: bytes, path: Path) -> Manifest:
    try:
        found = json.loads(content)
        written = found.pop("format")
        if written != FORMAT:
            raise UnsupportedStore(
                f"backup {path}: expected the format {FORMAT!r}, got {value_text(written)}"
            )
        parts = tuple(
            BackupPart(one["name"], one["size"], one["sha256"], tuple(one["columns"]))
            for one in found.pop("parts")
        )
        return Manifest(**found, parts=parts)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise _damaged(path, "no manifest") from None


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(
        f"backup {path}: expected a whole backup, got a truncated or damaged file ({what})"
    )
