"""An aggregator on loopback that enrols by tokens, a folder of users, and a round to ask them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_aggregator.server.devices import AggregatorServer, ServerParts, Settings
from askance_aggregator.server.process.certificates import self_made
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round, Tally
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.messages import Request, StudyTerms
from askance_client.queries import Bit, Schema
from askance_client.service import system_now_s
from tests.aggregator.server.certified_service import CertifiedService
from tests.commands import OF_THE_DEVICE, run_command

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw().hex()
SCHEMA = Schema("people", 1, smokes=Bit())
BUDGET = parse_epsilon("2")
WAIT_S = 60
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class Aggregator:
    """A service whose devices enrol themselves, and what it asks."""

    def __init__(self, server: AggregatorServer, store: SqliteStore) -> None:
        self.server = server
        self.store = store
        self.tokens = EnrolmentTokens(bytes(32), system_now_s)
        self._pool = ThreadPoolExecutor(1)
        terms = StudyTerms(
            bytes(16),
            "test",
            1,
            (),
            SCHEMA,
            BUDGET,
            system_now_s() + 86_400,
            "to be tested",
            fields=tuple(sorted(SCHEMA.fields)),
        )
        self.study = sign_study(terms, KEY)

    def token(self, devices: int) -> str:
        """A token for this many devices."""
        return self.tokens.issue(devices, 1).text

    def round(self, number: int = 0) -> Round:
        """Ask all enrolled users whether they smoke, at epsilon 1."""
        users, study = self.store.population(), digest_of(self.study.study)
        query, randomizer = predicate(SCHEMA["smokes"] == 1), randomized_response(10**9)
        payload = encode_request(Request(study, number, 0, query, randomizer))
        group = Group(
            payload,
            digest_of(payload),
            query,
            randomizer,
            randomizer.loss.nano_nats,
            Cohort(Permutation(b"", users), 0, users),
            bytes(32),
        )
        return Round(number, self.study, study, (group,))

    def ask(self, round_: Round) -> Future[tuple[Tally, ...]]:
        """Open a round; what is returned comes to an end when all have answered."""
        opened = self.server.hub.outstanding
        accounts = Accounts(self.store.population(), BUDGET)
        asked = self._pool.submit(self.server.fleet.ask, round_, accounts)
        for _ in range(1000 * WAIT_S):
            if asked.done() or self.server.hub.outstanding > opened:
                return asked
            threading.Event().wait(0.001)
        raise AssertionError("expected the round to open")

    def listen(self, port: int, store: SqliteStore) -> None:
        """Serve another store, at another port, from now on."""
        self.server.stop()
        self.server, self.store = serving(store, port), store

    def stop(self) -> None:
        """End the service, and with it a round that is open."""
        self.server.stop()
        self._pool.shutdown()


def serving(store: SqliteStore, port: int = 0) -> AggregatorServer:
    """Start a service whose enrolment tokens are those of every `Aggregator`."""
    tokens = EnrolmentTokens(bytes(32), system_now_s)
    settings = Settings(check_in_every_ms=20, stop_grace_s=0.2)
    parts = ServerParts(enrolment=tokens)
    return AggregatorServer.start(store, port=port, settings=settings, parts=parts)


@pytest.fixture
def aggregator() -> Iterator[Aggregator]:
    store = SqliteStore.in_memory()
    running = Aggregator(serving(store), store)
    yield running
    running.stop()


class Folder:
    """A device's folder, and its commands as processes of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, *words: str, program: tuple[str, ...] = ("-m", "askance_client")) -> Any:
        """Start a command; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, *program, words[0], str(self.path), *words[1:], "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def run(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """A command's exit code, its JSON object and its stderr."""
        done = run_command(OF_THE_DEVICE, (words[0], self.path, *words[1:], "--json"))
        return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture
def folder(tmp_path: Path, aggregator: Aggregator) -> Folder:
    """A gateway of five users, a, b, c, d and e."""
    return make_folder(tmp_path, aggregator.server.address)


def make_folder(
    path: Path,
    address: str,
    *options: str,
    people: str = "id,smokes\na,1\nb,0\nc,1\nd,\ne,1\n",
    naming: tuple[str, ...] = ("--key", "id"),
) -> Folder:
    """A folder whose configuration is complete."""
    (path / "people.toml").write_text('name = "people"\n[fields]\nsmokes = { type = "bit" }\n')
    (path / "people.csv").write_text(people)
    folder = Folder(path / "device")
    words = ("--aggregator", address, "--analyst", PUBLIC, "--life-epsilon", "8")
    files = ("--schema", str(path / "people.toml"), "--data", str(path / "people.csv"))
    code, _, err = folder.run("init", *words, *files, *naming, *options)
    assert code == 0, err
    return folder


class ServingTls(Aggregator):
    """The same behind a certificate of its own authority, for devices with certificates."""

    def __init__(self, service: CertifiedService, store: SqliteStore) -> None:
        super().__init__(service.server, store)
        self.service = service
        self._authorities = {"right": service.ca, "wrong": self_made([], system_now_s())[0]}

    def folder(self, path: Path, authority: str) -> Folder:
        """A folder that trusts the right authority, a wrong one, or speaks plain text."""
        if authority == "plain":
            return make_folder(path, self.service.address)
        (path / "ca.pem").write_bytes(self._authorities[authority].certificate)
        return make_folder(path, self.service.address, "--ca", str(path / "ca.pem"))

    def stop(self) -> None:
        """End the service, its outer process, and with them a round that is open."""
        self.service.stop()
        super().stop()


@pytest.fixture
def serving_tls() -> Iterator[ServingTls]:
    with serving_certified() as running:
        yield running


@contextmanager
def serving_certified() -> Iterator[ServingTls]:
    """Serve devices with certificates, by authorities of its own, until the end of the block."""
    store, tokens = SqliteStore.in_memory(), EnrolmentTokens(bytes(32), system_now_s)
    settings = Settings(check_in_every_ms=20, stop_grace_s=0.2)
    running = ServingTls(CertifiedService(store, tokens, system_now_s, settings=settings), store)
    yield running
    running.stop()
