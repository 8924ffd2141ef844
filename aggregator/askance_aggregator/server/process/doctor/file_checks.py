"""Checks of files, the disk and descriptors."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from askance_aggregator.server.process.capacity import OTHER_DESCRIPTORS
from askance_aggregator.server.process.doctor.checks import (
    CheckVerdict,
    Surroundings,
    check,
    failed,
    passed,
    warned,
)
from askance_aggregator.server.process.tokens import read_tokens
from askance_client.durable_files import flush

_LEAST_FREE_BYTES = 64 << 20  # one study of 10^6 reports of 64 bytes
_LITTLE_FREE_BYTES = 1 << 30
_PROBE_BYTES = 64 << 10  # as `Store.check_writable` writes
_SLOW_FLUSH_S = 0.1  # a disk of its own takes 1 to 10 ms
_OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
_LEAST_CONNECTIONS = 64


@check("secrets", "let only the aggregator's user read the file")
def secrets(surroundings: Surroundings) -> CheckVerdict:
    """Check the modes of all files that hold a secret."""
    paths = surroundings.configuration.secret_files
    shared: list[tuple[Path, int]] = []
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            return failed(
                f"{path}: expected mode 0600, got {mode:04o}: other users may read or change it",
                f"chmod 600 {path}",
            )
        if mode & stat.S_IRGRP:
            shared.append((path, mode))
    if shared:
        path, mode = shared[0]
        return warned(
            f"{path}: expected mode 0600, got {mode:04o}: its group may read it",
            f"chmod 600 {path}, unless the group is the aggregator's alone",
        )
    return passed(f"{len(paths)} files, for their owner only")


@check("enrolment", "put back the enrolment key; without it tokens that were printed are worthless")
def enrolment(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the key of enrolment tokens."""
    path = surroundings.configuration.enrolment_key
    if path is None:
        return None
    read_tokens(path, lambda: int(surroundings.now_s()))
    return passed(str(path))


@check("disk", "free space, or move the store to a larger disk while the aggregator is stopped")
def disk(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the free space where the store is; the disk of a database server is its own matter."""
    facts = surroundings.store_if_known
    if facts is None or facts.folder is None:
        return None
    free = shutil.disk_usage(facts.folder).free
    text = f"{facts.folder}: {free / 2**20:,.1f} MiB free"
    if free < _LEAST_FREE_BYTES:
        return failed(f"{text}, expected {_LEAST_FREE_BYTES >> 20} MiB at least")
    if free < _LITTLE_FREE_BYTES:
        return warned(f"{text}, expected {_LITTLE_FREE_BYTES >> 20:,} MiB")
    return passed(text)


@check("fsync", "give the aggregator's user a folder on a local disk that it can write")
def fsync(surroundings: Surroundings) -> CheckVerdict | None:
    """Write a file beside the store, make it durable, and remove it."""
    facts = surroundings.store_if_known
    if facts is None or facts.folder is None:
        return None
    with tempfile.TemporaryFile(prefix=".askance-doctor-", dir=facts.folder) as file:
        file.write(os.urandom(_PROBE_BYTES))
        file.flush()
        start_s = surroundings.monotonic_s()
        flush(file.fileno())
        seconds = surroundings.monotonic_s() - start_s
    text = f"{facts.folder}: {_PROBE_BYTES >> 10} KiB durable in {seconds * 1000:.1f} ms"
    if seconds > _SLOW_FLUSH_S:
        return warned(text, "each commit waits for the disk: use a faster or a less busy one")
    return passed(text)


@check("descriptors", "raise the limit on open files: ulimit -Hn, or LimitNOFILE= of systemd")
def descriptors(surroundings: Surroundings) -> CheckVerdict:
    """Compare the limit on open files with the connections that are to be held."""
    connections = surroundings.configuration.limits.service.max_connections
    needed = connections + OTHER_DESCRIPTORS
    allowed = surroundings.descriptors
    if allowed is None or allowed >= needed:
        limit = "no limit" if allowed is None else f"{allowed:,}"
        return passed(f"{limit}, for {connections:,} connections")
    if allowed < OTHER_DESCRIPTORS + _LEAST_CONNECTIONS:
        return failed(f"expected {needed:,} for {connections:,} connections, got {allowed:,}")
    held = allowed - OTHER_DESCRIPTORS
    return warned(
        f"expected {needed:,} for {connections:,} connections, got {allowed:,}: {held:,} are held",
        "raise the limit on open files (LimitNOFILE= of systemd), or lower connections in [limits]",
    )
