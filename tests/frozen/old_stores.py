"""Stores as an earlier version of the aggregator left them, as SQL text.

`sqlite.sql` and `postgresql.sql` were written once, by a deployment of real parts on a hand-made
clock: studies that are done, cancelled, paused and repeated; devices that are tagged, revoked and
forgotten; a report that contradicts another; an audit log; a restoration. They are never written
anew: what this version reads in them is compared with `expected/sqlite.json` and
`expected/postgresql.json`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from askance_aggregator.encoding import sign_study
from askance_aggregator.store import (
    AuditEvent,
    PostgresqlLocation,
    SqliteLocation,
    SqliteStore,
    Store,
    StoredReport,
    StoreLocation,
    StudyQuery,
)
from askance_aggregator.store.certificates import CertificateHolder, StoredCertificate
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.studies.transcript import Asked, Transcript
from askance_client.codec import digest_of
from askance_client.messages import Repeat, SignedStudy, StudyTerms
from tests.faults.deployment import Deployment
from tests.faults.people import KEY, NOW_S, PEOPLE, PUBLIC, WEEK_S
from tests.postgresql import PostgresqlServer

HERE = Path(__file__).parent
SQLITE, POSTGRESQL = HERE / "sqlite.sql", HERE / "postgresql.sql"
SETUP = replace(PEOPLE, users=12, refresh_days=7)
FIRST = NOW_S // WEEK_S


def signed(nonce: int, learner: str, parameters: dict[str, str], **changes: Any) -> SignedStudy:
    """Return a study of the deployment's people."""
    terms = StudyTerms(
        nonce=nonce.to_bytes(16, "big"),
        learner=learner,
        learner_version=2 if learner == "mean" else 1,
        parameters=tuple(sorted(parameters.items())),
        schema=SETUP.schema,
        budget_nano_nats=10**9,
        expires_unix_s=NOW_S + 2 * WEEK_S,
        purpose="kept for ever",
        fields=tuple(sorted(SETUP.schema.fields)),
    )
    return sign_study(replace(terms, **changes), KEY)


STUDIES = {
    "frequency": signed(1, "frequency", {"column": "colour"}),
    "mean": signed(2, "mean", {"column": "smoker"}),
    "cancelled": signed(3, "mean", {"column": "smoker"}),
    "open": signed(
        4, "mean", {"column": "smoker"}, budget_nano_nats=2 * 10**9,
        expires_unix_s=NOW_S + 9 * WEEK_S,
    ),
    "repeated": signed(
        5, "mean", {"column": "smoker"}, repeat=Repeat(7, 2, FIRST + 1),
        expires_unix_s=(FIRST + 3) * WEEK_S,
    ),
}  # fmt: skip
DIGESTS = {name: digest_of(study.study) for name, study in STUDIES.items()}


async def fill(folder: Path, location: StoreLocation) -> None:
    """Run a deployment on an empty store, and leave in it one of everything."""
    deployment = Deployment(SETUP, folder, store=location)
    manager, store = deployment.manager, deployment.disk.store
    register = store.register

    async def check_in() -> None:
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()

    for name in ("frequency", "mean"):
        manager.submit(STUDIES[name])
        await deployment.settle()
        await check_in()
    manager.submit(STUDIES["cancelled"])
    await deployment.settle()
    manager.cancel(DIGESTS["cancelled"], PUBLIC)
    await deployment.settle()
    manager.submit(STUDIES["repeated"])
    for _ in range(2):
        deployment.clock.advance(WEEK_S)
        await deployment.settle()
        await check_in()
    register.keep_token(bytes(16), 100, NOW_S + WEEK_S)
    store.enrol_with([(b"member 0", bytes(32)), (b"member 1", bytes(32))], bytes(16), 100,
                     gateway=(b"gateway", bytes(32)))  # fmt: skip
    certificate = StoredCertificate(CertificateHolder(0, 0), NOW_S + WEEK_S)
    store.certificates.add(bytes(32), certificate, now_s=NOW_S, older_end_unix_s=NOW_S)
    register.tag(DeviceSelection(ids=(b"device 1", b"device 2")), add=["site=north", "test"])
    register.revoke(DeviceSelection(ids=(b"member 0",)))
    register.forget(DeviceSelection(ids=(b"member 1",)))
    register.note_seen([0, 1, 2], NOW_S // 86_400, "askance 0.1.0")
    manager.submit(STUDIES["open"])
    await deployment.settle()
    manager.pause(DIGESTS["open"], PUBLIC)
    store.accept([StoredReport(requests_of(store, DIGESTS["frequency"])[0], 0, b"another", 0)])
    for number in range(3):
        store.audit.append(
            AuditEvent(NOW_S + number, "ann", "admin", "Analysts/Cancel", "7", "::1", "done")
        )
    await deployment.stop()


def requests_of(store: Store, study: bytes, epoch: int = 0) -> list[bytes]:
    """Return the digests of a study's requests, as its transcript has them."""
    recorded = Transcript(store.log(study, epoch)).recorded
    asked = [event for event in recorded if isinstance(event, Asked)]
    return [digest_of(group.payload) for event in asked for group in event.groups]


def plain(value: Any) -> Any:
    """Return a value of a store as JSON, without the names of its classes and fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, part.name)) for part in fields(value)]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return [[plain(key), plain(one)] for key, one in sorted(value.items())]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def describe(store: Store) -> dict[str, Any]:
    """Return all that a store says of itself, as one JSON object."""
    register = store.register
    return {
        "population": store.population(),
        "devices": plain(register.devices()),
        "gateways": plain(register.gateways()),
        "count": plain(register.count()),
        "tokens": plain(register.tokens()),
        "standing": plain(register.changes(0)),
        "known": plain((store.device(b"device 3"), store.gateway(b"gateway"))),
        "certificate": plain(store.certificates.find(bytes(32))),
        "sequences": [store.acknowledged_sequence(ordinal) for ordinal in range(14)],
        "studies": {name: _describe_study(store, digest) for name, digest in DIGESTS.items()},
        "listed": [entry.digest.hex() for entry in store.listing.page(StudyQuery()).studies],
        "counts": {state.name: number for state, number in store.listing.count().items()},
        "costs": sorted(store.study_costs()),
        "asked": store.nano_nats_asked(),
        "paused": plain(sorted(store.management.paused())),
        "submissions": plain(store.management.submissions(PUBLIC)),
        "kept": plain(store.retention.kept()),
        "audit": [entry.to_json() for entry in store.audit.entries()],
    }


def _describe_study(store: Store, digest: bytes) -> dict[str, Any]:
    signed, summary = store.study(digest), store.listing.entry(digest)
    assert signed is not None
    assert summary is not None
    epochs = store.epochs(digest)
    return {
        "signed": plain(signed),
        "summary": [summary.state.name, summary.reason, summary.message, summary.rounds_closed],
        "epochs": plain(epochs),
        "parts": {
            str(epoch): _describe_part(store, digest, epoch)
            for epoch in (0, *(entry.epoch for entry in epochs))
        },
    }


def _describe_part(store: Store, digest: bytes, epoch: int) -> dict[str, Any]:
    requests = requests_of(store, digest, epoch)
    return {
        "transcript": list(store.log(digest, epoch).lines()),
        "conclusion": plain(store.conclusion(digest, epoch)),
        "requests": {
            request.hex(): {
                "asked": plain(store.asked(request)),
                "reports": plain(list(store.reports(request))),
                "evidence": plain(list(store.evidence(request))),
            }
            for request in requests
        },
    }


def load_sqlite(path: Path) -> None:
    """Make the file of the old SQLite store."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SQLITE.read_text(encoding="utf-8"))
        connection.execute("PRAGMA journal_mode=WAL")


def load_postgresql(server: PostgresqlServer) -> str:
    """Put the old PostgreSQL store into a new database and return its address."""
    import psycopg

    address = server.new_database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(POSTGRESQL.read_bytes())
    return address


def write() -> None:
    """Write both files by the present code; only for a version that no user has run yet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        SqliteStore.create(folder / "store").close()
        asyncio.run(fill(folder, SqliteLocation(folder / "store")))
        with closing(sqlite3.connect(folder / "store")) as connection:
            pragmas = [
                f"PRAGMA {pragma}={connection.execute(f'PRAGMA {pragma}').fetchone()[0]};"
                for pragma in ("application_id", "user_version")
            ]
            SQLITE.write_text("\n".join([*pragmas, *connection.iterdump(), ""]), encoding="utf-8")
    with PostgresqlServer.running() as server, tempfile.TemporaryDirectory() as name:
        location = PostgresqlLocation(server.new_database())
        location.migrate()
        asyncio.run(fill(Path(name), location))
        command = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", location.url]
        done = subprocess.run(
            [server.program(command[0]), *command[1:]], capture_output=True, text=True, check=True
        )
        lines = [line for line in done.stdout.splitlines() if not line.startswith(("--", "\\"))]
        POSTGRESQL.write_text("\n".join(filter(None, lines)) + "\n", encoding="utf-8")
