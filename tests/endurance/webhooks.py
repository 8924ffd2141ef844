"""Deliveries to a webhook that fails, hangs and restarts, by replicas that are killed.

Two processes deliver from one PostgreSQL database (with `--store sqlite`, one from a file), with
the deliverer, the queue and the sending process of `aggregator serve`. This process ends the epochs
and the series of studies one after another, while at random moments a delivering process is killed
(SIGKILL) and started again, or stopped (SIGSTOP) for longer than a claim lasts. The receiver is in
this process: it answers 200, 500 or a redirection, closes without an answer, hangs past the time
limit, and closes its port for a second now and then.

Afterwards each end was answered with 200 at least once; of each study an end came for the first
time only after the one before it was answered with 200; each message was signed by the secret, over
its id, its time and its body, and its time is near; each end has one id of its own; no redirection
was followed.

    python tests/endurance/webhooks.py [--deliveries 1000] [--kills 20] [--stops 1] [--seed 0]
    python tests/endurance/webhooks.py --quick --store sqlite      # 60 deliveries, 2 kills

It exits 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import logging
import random
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import sign_study
from askance_aggregator.server.webhooks.deliverer import delivering
from askance_aggregator.server.webhooks.receivers import WebhookReceiver
from askance_aggregator.store import (
    Conclusion,
    SqliteStore,
    Store,
    StoreLocation,
    StudyState,
    store_location,
)
from askance_client.codec import digest_of
from askance_client.errors import StoreError
from askance_client.messages import Repeat, StudyTerms
from tests.faults.people import KEY, PEOPLE
from tests.ports import free_address
from tests.postgresql import PostgresqlServer

ENDS_PER_STUDY = 10  # nine epochs and the series
TIMEOUT_S, LONGEST_WAIT_S = 1, 2
HANG_S = 3.0
TAKING_S = 0.3  # from the time at which the receiver has taken a message to its answer, at most
STOP_S = 75.0  # of a process, past the end of its claims (a try's limit and 60 s)
AWAY_S = 1.0
PATIENCE_S = 600.0
NEAR_S = 60  # between a message's time and its arrival
ANSWERS: dict[int | str, int] = {200: 70, 500: 12, 307: 5, "close": 8, "hang": 5}
"""Chances in percent of the receiver's answers."""


@dataclass
class Message:
    """Arrival of a message: its end, and whether it was answered with 200."""

    id: str
    study: str
    place: int  # 1 to 10 in its study
    sound: bool
    answered: bool = False


@dataclass
class Log:
    """Arrivals in their order, and followed redirections; for any thread."""

    secret: bytes
    draw: random.Random
    messages: list[Message] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    followed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def arrive(self, headers: Any, body: bytes) -> tuple[Message, int | str]:
        """Note an arrival, and draw its answer."""
        content = json.loads(body)["data"]
        place = content["epoch"] or ENDS_PER_STUDY
        message = Message(
            headers["webhook-id"], content["study"], place, self._sound(headers, body)
        )
        with self.lock:
            self.messages.append(message)
            (answer,) = self.draw.choices(list(ANSWERS), list(ANSWERS.values()))
            self.answers[str(answer)] += 1
        return message, answer

    def _sound(self, headers: Any, body: bytes) -> bool:
        stated = headers["webhook-timestamp"]
        signed = f"{headers['webhook-id']}.{stated}.".encode() + body
        expected = base64.b64encode(hmac.new(self.secret, signed, hashlib.sha256).digest()).decode()
        near = abs(int(stated) - time.time()) < NEAR_S
        return near and headers["webhook-signature"] == f"v1,{expected}"


class Handler(BaseHTTPRequestHandler):
    """Receiver of one message."""

    server: Receiver

    def do_POST(self) -> None:
        """Answer as it is drawn."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/elsewhere":
            self.server.log.followed += 1
        message, answer = self.server.log.arrive(self.headers, body)
        if answer == "hang":
            time.sleep(HANG_S)
        if isinstance(answer, int):
            if answer == 200:  # from then on the next end of its study may come
                message.answered = True
                time.sleep(self.server.log.draw.uniform(0, TAKING_S))
            self.send_response(answer)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class Receiver(ThreadingHTTPServer):
    """Receiver on loopback."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, log: Log) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.log = log

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a sender that has gone."""


class ReceiverManager:
    """Receiver that closes its port now and then, until `stop`."""

    def __init__(self, port: int, log: Log, draw: random.Random) -> None:
        self._port, self._log, self._draw = port, log, draw
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.restarts = 0
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            with Receiver(self._port, self._log) as server:
                threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
                self._over.wait(self._draw.uniform(5, 20))
                server.shutdown()
            self.restarts += 1
            self._over.wait(AWAY_S)


def deliver(url: str, port: int, secret: Path) -> None:
    """Deliver from a store until the process is killed."""
    logging.disable(logging.WARNING)
    receiver = WebhookReceiver(
        "drill",
        f"http://127.0.0.1:{port}/hook",
        secret,
        timeout_s=TIMEOUT_S,
        longest_wait_s=LONGEST_WAIT_S,
    )
    with (
        closing(store_location(url).open_beside()) as store,
        delivering(
            store.webhooks, [receiver], now_s=system_now_s, tried=lambda name, delivered: None
        ),
    ):
        threading.Event().wait()


class Workers:
    """Processes that deliver."""

    def __init__(self, count: int, words: Sequence[str]) -> None:
        self._words = [sys.executable, __file__, "--deliver", *words]
        self._processes = [self._start() for _ in range(count)]
        self.kills = self.stops = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._words)

    def disturb(self, draw: random.Random, *, stop: bool) -> None:
        """Kill a process and start it again, or stop one for longer than its claims last."""
        place = draw.randrange(len(self._processes))
        process = self._processes[place]
        if stop:
            process.send_signal(signal.SIGSTOP)
            threading.Timer(STOP_S, process.send_signal, (signal.SIGCONT,)).start()
            self.stops += 1
            return
        process.kill()
        process.wait()
        time.sleep(draw.uniform(0, 1))
        self._processes[place] = self._start()
        self.kills += 1

    def end(self) -> None:
        """End them all."""
        for process in self._processes:
            process.kill()
            process.wait()


def add_studies(store: Store, count: int) -> list[bytes]:
    """Add studies of nine epochs, and return their digests."""
    digests = []
    for number in range(count):
        terms = StudyTerms(
            nonce=number.to_bytes(16, "big"),
            learner="mean",
            learner_version=2,
            parameters=(("column", "smoker"),),
            schema=PEOPLE.schema,
            budget_nano_nats=10**9,
            expires_unix_s=4_000_000_000,
            purpose="Smokers by week.",
            fields=tuple(sorted(PEOPLE.schema.fields)),
            repeat=Repeat(7, ENDS_PER_STUDY - 1, 100),
        )
        signed = sign_study(terms, KEY)
        digests.append(digest_of(signed.study))
        store.add_study(digests[-1], signed)
    return digests


def end_all(store: Store, digests: list[bytes], draw: random.Random, over_s: float) -> list[float]:
    """End each epoch and each study, spread over a time; return the seconds of each."""
    took: list[float] = []
    pause_s = over_s / (len(digests) * ENDS_PER_STUDY)
    for place in range(1, ENDS_PER_STUDY + 1):
        for digest in draw.sample(digests, len(digests)):
            epoch = 0 if place == ENDS_PER_STUDY else 99 + place
            result = json.dumps({"users": place, "hypothesis": {"estimate": place / 16}})
            began = time.monotonic()
            store.conclude(digest, Conclusion(StudyState.DONE, "done", "", result), epoch)
            took.append(time.monotonic() - began)
            time.sleep(pause_s)
    return took


def faults(messages: list[Message], deliveries: int, followed: int) -> Iterator[str]:
    """Yield what does not hold."""
    if followed:
        yield f"{followed} redirections were followed"
    ids: dict[tuple[str, int], set[str]] = {}
    answered: set[tuple[str, int]] = set()
    seen: set[tuple[str, int]] = set()
    for one in messages:
        end = (one.study, one.place)
        ids.setdefault(end, set()).add(one.id)
        if not one.sound:
            yield f"{end}: a signature or a time is wrong"
        if end not in seen and one.place > 1 and (one.study, one.place - 1) not in answered:
            yield f"{end}: came before the one before it was answered"
        seen.add(end)
        if one.answered:
            answered.add(end)
    if len(answered) != deliveries:
        yield f"{len(answered)} of {deliveries} ends were answered with 200"
    every = [one for found in ids.values() for one in found]
    if len(every) != len(ids) or len(set(every)) != len(ids):
        yield f"{len(set(every))} ids of {len(ids)} ends"


@contextmanager
def made_store(kind: str, folder: Path) -> Iterator[StoreLocation]:
    """A new store."""
    if kind == "sqlite":
        SqliteStore.create(folder / "store.sqlite").close()
        yield store_location(f"sqlite:///{folder / 'store.sqlite'}")
        return
    with PostgresqlServer.running() as server:
        location = store_location(server.new_database())
        location.migrate()
        yield location


def drill(kind: str, deliveries: int, kills: int, stops: int, seed: int) -> dict[str, Any]:
    """Run the drill; return its figures, what does not hold under "faults"."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, made_store(kind, Path(name)) as location:
        secret = Path(name) / "secret"
        key = secrets.token_bytes(32)
        secret.write_text(f"whsec_{base64.b64encode(key).decode()}")
        log, port = Log(key, random.Random(seed + 1)), int(free_address().rpartition(":")[2])
        receiver = ReceiverManager(port, log, random.Random(seed + 2))
        workers = Workers(1 if kind == "sqlite" else 2, [str(location), str(port), str(secret)])
        began = time.monotonic()
        try:
            with closing(location.open_beside()) as store:
                store.webhooks.announce_to([WebhookReceiver("drill", "", secret).receiving])
                digests = add_studies(store, deliveries // ENDS_PER_STUDY)
                ending = threading.Thread(
                    target=lambda: took.extend(end_all(store, digests, draw, deliveries * 0.05))
                )
                took: list[float] = []
                ending.start()
                disturbances = [False] * kills + [True] * stops
                random.Random(seed + 3).shuffle(disturbances)
                for stop in disturbances:
                    time.sleep(draw.uniform(1, 4))
                    workers.disturb(draw, stop=stop)
                ending.join()
                left = waited(store, deliveries)
        finally:
            workers.end()
            receiver.stop()
        messages = list(log.messages)
        found = list(faults(messages, deliveries, log.followed))
    return {
        "store": kind,
        "deliveries": deliveries,
        "kills": workers.kills,
        "stops": workers.stops,
        "receiver_restarts": receiver.restarts,
        "messages": len(messages),
        "answers": dict(sorted(log.answers.items())),
        "doubles": sum(one.answered for one in messages) - deliveries,
        "not_delivered": left,
        "end_median_ms": round(1000 * statistics.median(took), 1),
        "end_most_ms": round(1000 * max(took), 1),
        "seconds": round(time.monotonic() - began),
        "faults": found,
    }


def waited(store: Store, deliveries: int) -> int:
    """Wait until all is delivered; return what is not."""
    until = time.monotonic() + PATIENCE_S
    left = deliveries
    while left and time.monotonic() < until:
        time.sleep(0.5)
        try:
            left = deliveries - sum(one.delivered for one in store.webhooks.figures())
        except StoreError:
            continue
    return left


def main(words: Sequence[str]) -> int:
    """Run the drill, or one of its processes."""
    if words and words[0] == "--deliver":
        deliver(words[1], int(words[2]), Path(words[3]))
        return 0
    parser = argparse.ArgumentParser(description="Deliveries to a receiver that is disturbed.")
    parser.add_argument("--deliveries", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stops", type=int, default=1)
    parser.add_argument("--store", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="60 deliveries, 2 kills, no stop")
    given = parser.parse_args(words)
    deliveries, kills, stops = given.deliveries, given.kills, given.stops
    if given.quick:
        deliveries, kills, stops = 60, 2, 0
    found = drill(given.store, deliveries, kills, stops, given.seed)
    print(json.dumps(found, indent=1))
    return 1 if found["faults"] or found["not_delivered"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
