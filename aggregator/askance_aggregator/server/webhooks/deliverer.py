"""Delivery of queued ends: a thread per receiver, with a sending process of its own.

A sending process is started when it is needed and ended when it is late. The aggregator and it
speak lines of JSON over a pipe: a request to send, and its outcome (`outcome_of`). The aggregator
reads no byte that a receiver has sent.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from askance_aggregator.server.outer.child_process import process_environment
from askance_aggregator.server.webhooks.messages import body_of, headers_of, trial_body
from askance_aggregator.server.webhooks.receivers import WebhookReceiver
from askance_aggregator.store import WebhookClaim, WebhookQueue
from askance_client.errors import AskanceError, StoreError
from askance_client.printable import printable

_PROGRAM = "askance_aggregator.server.webhooks"
_START_S = 30.0  # for the interpreter, on a busy machine
_GRACE_S = 5.0  # past a try's own limit, which the process keeps by itself if it can
_LINE_BYTES = 4096  # of an outcome
_ERROR_CHARACTERS = 300


class Sender:
    """A process that sends one message at a time; for one thread, but for `stop`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def send(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        ca: Path | None,
        timeout_s: float,
    ) -> str:
        """Send a message and return the error; "" if the receiver answered 2xx."""
        request = {
            "url": url,
            "headers": dict(headers),
            "body": body.decode(),
            "ca": None if ca is None else str(ca),
            "timeout_s": timeout_s,
        }
        process = self._running()
        if process is None:
            return "the sending process was not started"
        limit = threading.Timer(timeout_s + _GRACE_S, process.kill)
        limit.start()
        try:
            line = _exchange(process, json.dumps(request).encode() + b"\n")
        finally:
            limit.cancel()
        found = outcome_of(line)
        if found is None:
            self._end(process)
            return f"expected an answer within {timeout_s:g} s, got none; the sender was ended"
        return found

    def stop(self) -> None:
        """End the process, whatever it is sending; nothing is sent afterwards. For any thread."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None:
            self._end(process)

    def _running(self) -> subprocess.Popen[bytes] | None:
        """Return the process, which is started if none runs; None: it does not start."""
        with self._lock:
            if self._stopped:
                return None
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
            return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def outcome_of(line: bytes) -> str | None:
    """Return the error that a line of the process states, "" for none; None: it is no outcome."""
    try:
        found: Any = json.loads(line)
        error = found["error"]
    except (ValueError, LookupError, TypeError):
        return None
    return printable(error[:_ERROR_CHARACTERS]) if isinstance(error, str) else None


def _start() -> subprocess.Popen[bytes] | None:
    """Start a process and wait for its first line; None: it did not start."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=process_environment(),
        )
    except OSError:
        return None
    limit = threading.Timer(_START_S, process.kill)
    limit.start()
    try:
        assert process.stdout is not None
        if process.stdout.readline(_LINE_BYTES):
            return process
    finally:
        limit.cancel()
    process.kill()
    process.wait()
    return None


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Write a line and return the one that answers it; b"": the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline(_LINE_BYTES)
    except OSError:
        return b""


_LOGGER = logging.getLogger(__name__)
LOOK_S = 1.0
"""Seconds between two looks at the queue, and after a failure to the next try of any end."""
FIRST_WAIT_S = 5
"""Seconds from the first try of an end that fails to the second, at most."""
_CLAIM_S = 60  # past a try's time limit: for the sending process, and a busy machine
_STOP_S = 2.0

Tried = Callable[[str, bool], None]
"""Is told of each try: the receiver's name, and whether the end was delivered."""


class Send(Protocol):
    """Sends a message, and returns the error; "" if it was delivered (see `Sender.send`)."""

    def __call__(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        ca: Path | None,
        timeout_s: float,
    ) -> str: ...


def wait_s(attempt: int, longest_s: int, share: float) -> int:
    """Return the seconds from a failed try, the first being 1, to the next: doubled each time.

    `share`, 0 to 1, is drawn at random: the wait is between a half and all of the doubled time.
    """
    doubled = FIRST_WAIT_S << min(attempt - 1, 32)
    return max(round(min(doubled, longest_s) * (1 + share) / 2), 1)


class Deliverer:
    """Delivers what is queued for one receiver; for one thread.

    Args:
      now_s: the time, in whole seconds since 1970, UTC; a receiver refuses an old one.
      share: draws a number of 0 to 1 for a wait.
    """

    def __init__(
        self,
        queue: WebhookQueue,
        receiver: WebhookReceiver,
        send: Send,
        *,
        now_s: Callable[[], int],
        tried: Tried = lambda name, delivered: None,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._queue = queue
        self._receiver = receiver
        self._send = send
        self._now_s = now_s
        self._tried = tried
        self._share = share

    def run(self, stopping: threading.Event) -> None:
        """Deliver until `stopping` is set; a store that fails is looked at again."""
        while not stopping.is_set():
            delivered = False
            try:
                delivered = self.deliver_next()
            except StoreError as error:  # the store's observer has it
                _LOGGER.debug("a webhook waits for the store", exc_info=error)
            except Exception as error:
                _LOGGER.error("a webhook failed", exc_info=error)
            if not delivered:
                stopping.wait(LOOK_S)

    def deliver_next(self) -> bool:
        """Try the next end that is due; return whether it was delivered.

        Raises:
          StoreError: the store failed; what was sent is sent again.
        """
        receiver = self._receiver
        claim = self._queue.claim(receiver.name, receiver.timeout_s + _CLAIM_S)
        if claim is None:
            return False
        error = self._try(claim)
        self._tried(receiver.name, not error)
        if not error:
            self._queue.delivered(claim)
            return True
        pause_s = wait_s(claim.attempt, receiver.longest_wait_s, self._share())
        self._queue.failed(claim, error, pause_s, receiver.try_for_s)
        _LOGGER.warning(
            "a webhook was not delivered",
            extra={
                "receiver": receiver.name,
                "study": claim.digest.hex()[:16],
                "epoch": claim.epoch,
                "attempt": claim.attempt,
                "error": error,
            },
        )
        return False

    def _try(self, claim: WebhookClaim) -> str:
        """Send an end; return the error, "" for none."""
        receiver = self._receiver
        try:
            body = body_of(claim)
            headers = headers_of(claim.message_id, self._now_s(), body, receiver.secrets())
        except AskanceError as error:
            return str(error)
        return self._send(receiver.url, headers, body, ca=receiver.ca, timeout_s=receiver.timeout_s)


def send_test(receiver: WebhookReceiver, now_s: int) -> str:
    """Send a test message to a receiver and return the error; "" if it was delivered."""
    body, sender = trial_body(now_s), Sender()
    headers = headers_of(f"msg_test_{now_s}", now_s, body, receiver.secrets())
    try:
        return sender.send(
            receiver.url, headers, body, ca=receiver.ca, timeout_s=receiver.timeout_s
        )
    finally:
        sender.stop()


@contextmanager
def delivering(
    queue: WebhookQueue,
    receivers: Sequence[WebhookReceiver],
    *,
    now_s: Callable[[], int],
    tried: Tried,
) -> Iterator[None]:
    """Queue ends for these receivers and deliver them, for the length of a block.

    What is being sent at its end may be sent again by the next process.
    """
    for receiver in receivers:
        receiver.check()
    queue.announce_to([one.receiving for one in receivers])
    stopping = threading.Event()
    senders = [Sender() for _ in receivers]
    threads = [
        threading.Thread(
            target=Deliverer(queue, receiver, sender.send, now_s=now_s, tried=tried).run,
            args=(stopping,),
            name=f"askance-webhook-{place}",
            daemon=True,
        )
        for place, (receiver, sender) in enumerate(zip(receivers, senders, strict=True))
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for sender in senders:
            sender.stop()
        for thread in threads:
            thread.join(_STOP_S)
