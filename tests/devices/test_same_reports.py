"""Devices in TypeScript before a real aggregator give the reports of as many Python devices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from askance_aggregator.encoding import encode_schema
from askance_client.codec import digest_of
from tests.aggregator.server.devices.conftest import BUDGET, KEY, NOW_S, World
from tests.aggregator.server.devices.test_connect import Site, enrolled
from tests.devices.scripted import Led, build, missing

USERS = 9
_CANNOT = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CANNOT is not None, reason=_CANNOT or ""),
]


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    with found.service:
        yield found


def test_with_the_same_coins_the_store_has_the_same_bytes(site: Site, tmp_path: Path) -> None:
    """Two rounds of two groups, the second of which is answered as before and charged nothing."""
    world, built = World(), build()
    enrolled(site, world, *range(USERS))
    python = world.devices(USERS)
    hub, loop = site.service.server.hub, site.service.server.loop
    with ExitStack() as held:
        devices = [opened(site, world, tmp_path, built, n) for n in range(USERS)]
        for device in devices:
            held.callback(device.close)
        for number in range(2):
            round_ = world.round(USERS, number=number)
            expected = world.straight(round_, python)
            asked = asyncio.run_coroutine_threadsafe(hub.open(round_, world.accounts(USERS)), loop)
            while not asked.done():
                for device in devices:
                    assert device.do("check_in")["failure"] is None
            tallies = asked.result(30)
            assert [one.answered for one in tallies] == [6, 3]
            assert [one.counts for one in tallies] == [one.counts for one in expected]
            assert [one.reused for one in tallies] == [6 * number, 3 * number]
            for group in round_.groups:
                stored = dict(site.store.reports(digest_of(group.payload)))
                ours = {n: python[n].answer(group.payload) for n in stored}
                assert stored == ours
        charged = [device.state()["charges"] for device in devices]
    own = [[str(row.nano_nats) for row in one.ledger.history()] for one in python]
    assert charged == own


def opened(site: Site, world: World, folder: Path, built: Path, ordinal: int) -> Led:
    """Start a device whose coins are those of the Python device of this ordinal."""
    device, identity = Led(built), world.identity(ordinal)
    device.do("now", at_s=NOW_S)
    device.do(
        "open",
        path=str(folder / f"ledger-{ordinal}"),
        schema=encode_schema(world.schema).SerializeToString().hex(),
        analysts=[KEY.public_key().public_bytes_raw().hex()],
        life=str(BUDGET),
        record={"smoker": ordinal % 2, "colour": ("red", "green", "blue")[ordinal % 3]},
        url=f"https://{site.service.address}",
        ca=site.service.ca.certificate.decode(),
        device_id=identity.device_id.hex(),
        token=identity.token.hex(),
        ordinal=ordinal,
    )
    return device
