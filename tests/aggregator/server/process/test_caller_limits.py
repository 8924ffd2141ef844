"""A served aggregator holds each caller to its share, by the configuration that `init` writes."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst import Aggregator, CallRefused, StudyHandle, connect
from askance_aggregator.analyst.keys import load_key
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import SqliteStore
from tests.aggregator.server.process.conftest import Served, serving
from tests.aggregator.server.process.people import submit
from tests.aggregator.server.process.test_reload import READ, awaited, reload

OPEN_STUDIES, WATCHES, RAISED = 8, 32, 33  # the first two are the defaults


def public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def refused(call: Any) -> str:
    """Return the reason of a call's refusal."""
    with pytest.raises(CallRefused) as caught:
        call()
    return caught.value.reason


def watching(handle: StudyHandle, number: int, held: ExitStack) -> None:
    """Watch a study so often, until `held` ends."""
    for _ in range(number):
        watch: Any = handle.watch()
        held.callback(watch.close)
        next(watch)


def test_one_careless_analyst_leaves_room_for_another(fresh: AggregatorHome) -> None:
    """Once, one analyst took all 64 studies, and 256 watches of one viewer locked out others."""
    careless = load_key(fresh.analyst_key)
    other, viewer = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    text = fresh.configuration.read_text().replace(
        f'"{fresh.analyst.hex()}"', f'"{fresh.analyst.hex()}", other = "{public(other)}"'
    )
    text += f'[[callers.keys]]\nname = "viewer"\nkey = "{public(viewer)}"\nrole = "viewer"\n'
    fresh.configuration.write_text(text)
    with closing(SqliteStore.open(fresh.folder / "store.sqlite")) as store:
        store.enrol([(b"device", bytes(32))])
    with serving(fresh) as served, ExitStack() as held:
        with served.channel() as channel:
            for _ in range(OPEN_STUDIES):
                submit(channel, careless)
            with pytest.raises(Exception, match="at most 8 open studies of one analyst"):
                submit(channel, careless)
            study = submit(channel, other)

        def connected(key: Ed25519PrivateKey) -> Aggregator:
            return held.enter_context(connect(served.address, key=key, ca=fresh.authority))

        seen = connected(viewer).study(study.hex())
        watching(seen, WATCHES, held)
        assert refused(seen.status) == "too-many-calls"
        watching(connected(other).study(study.hex()), 1, held)
        raised = text.replace(f"watches_per_caller = {WATCHES}", f"watches_per_caller = {RAISED}")
        fresh.configuration.write_text(raised)
        reload(fresh)
        awaited(served, READ)
        watching(seen, RAISED - WATCHES, held)
        assert refused(seen.status) == "too-many-calls"
        assert not errors(served)


def errors(served: Served) -> list[dict[str, Any]]:
    return [one for one in served.events() if one["level"] in ("error", "critical")]
