"""A Ray to work on: joined by its address, or one of our own for as long as it is needed."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from askance_client.errors import AskanceError, InvalidParameter
from askance_simulation.cores import cores
from askance_simulation.fleets.shards import forget, import_ray
from askance_simulation.fleets.threads import check_workers

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # those of shards whose results are no longer needed
}
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_LONGEST = 40  # letters of a folder in which Ray can still name its sockets
_OOM_RETRIES = 2
_CONNECT_S = 5.0


class NoCluster(AskanceError):
    """No Ray was found at an address, or none could be started here."""


@contextmanager
def joined(workers: int | None = None, address: str | None = None) -> Iterator[int]:
    """Start or join a Ray for the length of the block; yield the number of concurrent shards.

    A Ray that this process is in already is used, and left alone afterwards.

    Args:
      workers: how many tasks at a time; None: one per core, of this machine or the whole cluster.
      address: of a Ray cluster, as `ray.init` takes it; None: one is started on this machine, that
        it is reachable by the loopback interface only, in a temporary folder.

    Raises:
      InvalidParameter: Ray is not installed, no such number of workers, or another address than
        that of the Ray that this process is in.
      NoCluster: nothing at that address, or Ray would not start.
    """
    check_workers(workers)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    ray = import_ray()
    if ray.is_initialized():
        _check_address(ray, address)
        yield _at_once(ray, workers)
    elif address is not None:
        _check_listening(address)
        with _begun(ray, f"a Ray cluster at {address}", {"address": address}, nullcontext()):
            yield _at_once(ray, workers)
    else:
        with (
            _temporary() as folder,
            _begun(ray, "a Ray of our own", _own(folder, workers), _loopback(ray)),
        ):
            yield _at_once(ray, workers)


def _own(folder: Path, workers: int | None) -> dict[str, Any]:
    return {
        "address": "local",
        "num_cpus": workers or cores(),
        "num_gpus": 0,
        "include_dashboard": False,
        "_temp_dir": str(folder),
        "_system_config": {"task_oom_retries": _OOM_RETRIES},  # it would try for ever
    }


def _at_once(ray: ModuleType, workers: int | None) -> int:
    """Return two tasks per core, so that none waits for its next; with fewer workers some wait."""
    there = max(1, int(ray.cluster_resources().get("CPU", 1)))
    return workers if workers is not None and workers < there else 2 * there


def _check_address(ray: ModuleType, address: str | None) -> None:
    found = ray.get_runtime_context().gcs_address
    if address is not None and address not in ("auto", found):
        raise InvalidParameter(
            f"cluster: expected {address}, got {found}, whose Ray this process is in"
        )


def _check_listening(address: str) -> None:
    """Check that a Ray listens there: Ray would retry for ten minutes, then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto", and what else Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise NoCluster(f"cluster: expected a Ray cluster at {address}, got none: {error}") from (
            error
        )


@contextmanager
def _begun(
    ray: ModuleType, what: str, settings: dict[str, Any], beginning: AbstractContextManager[None]
) -> Iterator[None]:
    """Run Ray's own shutdown at the end of the block, whatever ends it."""
    try:
        try:
            with _quiet(), beginning:
                ray.init(log_to_driver=False, configure_logging=False, **settings)
        except Exception as error:  # of many kinds, not all of them Ray's
            said = " ".join(str(error).split())
            raise NoCluster(f"cluster: expected {what}, got none: {said:.300}") from error
        with _silent(ray):
            yield
    finally:
        forget()
        ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Ray's logs, and keep SIGTERM's handler for the length of the block."""
    # Ray's own handler would end the process at once and leave temporary files.
    logger = logging.getLogger("ray")
    level, main = logger.level, threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if main:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _silent(ray: ModuleType) -> Iterator[None]:
    """Silence Ray's messages on stdout for the length of the block."""
    # Ray prints there of each worker that dies, whatever its log settings; stdout is for results. A
    # failure that could not be made good is raised.
    worker = ray._private.worker
    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def _loopback(ray: ModuleType) -> Iterator[None]:
    """Make a Ray for this machine only listen on the loopback interface while it starts."""
    # Ray has this for other systems, and asks when it is imported; no setting of `init` does it.
    constants = ray._private.ray_constants
    before, was = os.environ.get(_LOOPBACK), constants.ENABLE_RAY_CLUSTER
    os.environ[_LOOPBACK], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = was
        if before is None:
            del os.environ[_LOOPBACK]
        else:
            os.environ[_LOOPBACK] = before


@contextmanager
def _temporary() -> Iterator[Path]:
    """Make a folder whose name is short enough for sockets in it."""
    usual = tempfile.gettempdir()
    place = "/tmp" if os.name == "posix" and len(usual) > _LONGEST - 20 else usual
    with tempfile.TemporaryDirectory(
        prefix="askance-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
