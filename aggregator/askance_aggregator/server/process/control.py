"""Commands to the process that holds a store alone: a Unix socket beside the store, for its user.

Only a store that no second process can read has one (see `StoreLocation.control`). A backup is
begun by one request and followed by others, because it may take longer than a request may.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from askance_aggregator.server.process.logs import logger
from askance_aggregator.store import Manifest, Store, StoreLocation
from askance_client.errors import InvalidParameter, StoreError
from askance_client.owner.control import ControlServer, ask_running
from askance_client.printable import value_text

_LOG = logger(__name__)
_PATIENCE_S = 10.0  # for a busy event loop to open or close the socket
_LOOK_EVERY_S = 0.1
_BEGIN, _STATE = "backup", "backup-state"


class BackupOperations:
    """Operations of the socket: at most one backup at a time."""

    def __init__(
        self, store: Store, executor: ThreadPoolExecutor, now_s: Callable[[], int]
    ) -> None:
        self._store = store
        self._executor = executor
        self._now_s = now_s
        self._lock = threading.Lock()
        self._job: Future[Manifest] | None = None

    @property
    def by_name(self) -> dict[str, Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]]:
        """The operations, as `ControlServer` takes them."""
        return {_BEGIN: self._begin, _STATE: self._state}

    def _begin(self, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        file = arguments.get("file")
        if not isinstance(file, str) or not Path(file).is_absolute():
            raise InvalidParameter(f"file: expected an absolute path, got {value_text(file)}")
        with self._lock:
            if self._job is not None and not self._job.done():
                raise StoreError("backup: expected none under way, got one (wait for its end)")
            self._job = self._executor.submit(self._store.back_up, Path(file), self._now_s())
        yield {"running": True}

    def _state(self, _: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        with self._lock:
            job = self._job
        if job is None:
            raise StoreError("backup: expected one that was begun, got none")
        if not job.done():
            yield {"running": True}
            return
        try:
            yield {"running": False, **job.result().to_json()}
        except CancelledError:
            raise StoreError("backup: expected a running aggregator, got one that stops") from None


@contextmanager
def taking_commands(
    location: StoreLocation,
    store: Store,
    loop: asyncio.AbstractEventLoop,
    now_s: Callable[[], int],
) -> Iterator[None]:
    """Take commands for the length of a block; without a socket, a warning in the log says so."""
    path = location.control
    if path is None:
        yield
        return
    with ThreadPoolExecutor(1, "askance-backup") as executor:
        operations = BackupOperations(store, executor, now_s)
        opened: Future[None] = Future()
        stopping = asyncio.Event()

        async def serve() -> None:
            try:
                async with ControlServer(path, operations.by_name).serving():
                    opened.set_result(None)
                    await stopping.wait()
            except StoreError as error:
                if opened.done():
                    raise
                opened.set_exception(error)

        serving = asyncio.run_coroutine_threadsafe(serve(), loop)
        try:
            opened.result(_PATIENCE_S)
        except StoreError as error:
            _LOG.warning("no backup while this process runs", reason=str(error))
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stopping.set)
            serving.result(_PATIENCE_S)


def back_up(
    location: StoreLocation, path: Path, now_s: int, sleep_s: Callable[[float], None]
) -> dict[str, Any]:
    """Write a backup of a store, by the process that holds it or directly; return its manifest.

    The path is a new file. `now_s` is used if no other process holds the store.

    Raises:
      StoreError: the store cannot be read, or the backup not be written; nothing is left.
    """
    held = location.control
    if held is not None and ask_running(held, _BEGIN, {"file": str(path.absolute())}) is not None:
        while True:
            found = ask_running(held, _STATE, {})
            if not found:
                raise StoreError(f"backup {path}: expected a running aggregator, got none")
            state = found[0]
            if not state.pop("running"):
                return state
            sleep_s(_LOOK_EVERY_S)
    with closing(location.open_to_read()) as store:
        return store.back_up(path, now_s).to_json()
