"""Status of a delivered report: every status, over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Round, Tally
from askance_client.codec import decode_report, encode_report
from askance_client.messages import AckStatus, Refusal, Report
from askance_client.messages import Reason as Why
from askance_client.service import SERVICE, CheckIn, Response, decode_response, encode_check_in
from askance_client.service.exchange import MAX_REPORTS

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
USERS = 3


class Scene:
    """An open round of three users, and one raw caller that may say anything."""

    def __init__(
        self, world: World, store: SqliteStore, server: AggregatorServer, channel: aio.Channel
    ) -> None:
        self.world, self.store, self.server = world, store, server
        self.call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{SERVICE}/CheckIn"
        )
        self.stream: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            f"/{SERVICE}/Participate"
        )
        self.devices = world.devices(USERS)
        self.round = world.broadcast(USERS)
        self.payload, self.digest = self.round.groups[0].payload, self.round.groups[0].digest
        self.asking: asyncio.Future[tuple[Tally, ...]] | None = None

    async def open(self, round_: Round | None = None) -> None:
        accounts = self.world.accounts(USERS)
        self.asking = asyncio.ensure_future(
            asyncio.to_thread(self.server.fleet.ask, round_ or self.round, accounts)
        )
        while not (await self.say(0)).requests:
            await asyncio.sleep(0.005)

    async def say(self, ordinal: int, *reports: bytes) -> Response:
        message = encode_check_in(CheckIn(reports=reports))
        return decode_response(await self.call(message, metadata=self.world.metadata(ordinal)))

    async def deliver(self, ordinal: int, *reports: bytes) -> list[str]:
        response = await self.say(ordinal, *reports)
        return [status.name for _, status in response.acks]

    def report(self, ordinal: int) -> bytes:
        device = self.devices[ordinal]
        device.introduce(self.round.study)
        return device.answer(self.payload)

    def other_report(self, ordinal: int) -> bytes:
        """Return a well-formed report other than the device's own: a lie."""
        charge = self.round.groups[0].nano_nats
        mine = self.report(ordinal)
        lies = [
            encode_report(Report(self.digest, symbol, charge, charge))
            for symbol in (b"\x00", b"\x01")
        ]
        return lies[1] if mine == lies[0] else lies[0]

    async def finish(self) -> Tally:
        for ordinal in range(USERS):
            await self.deliver(ordinal, self.report(ordinal))
        assert self.asking is not None
        (tally,) = await self.asking
        return tally

    def expected(self) -> tuple[Tally, ...]:
        return self.world.straight(self.round, self.world.devices(USERS))


@pytest.fixture
def play(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> Callable[[Callable[[Scene], Any]], Any]:
    """Play a scenario on a scene with an open round."""
    world.enrol(store, USERS + 1)

    def playing(scenario: Callable[[Scene], Any]) -> Any:
        async def on_stage() -> Any:
            async with aio.insecure_channel(server.address) as channel:
                scene = Scene(world, store, server, channel)
                await scene.open()
                return await scenario(scene)

        return run(on_stage())

    return playing


Play = Callable[[Callable[[Scene], Any]], Any]


def test_new_then_the_same_then_another(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.deliver(0, scene.report(0)) == ["ACCEPTED"]
        assert await scene.deliver(0, scene.report(0)) == ["DUPLICATE"]
        assert await scene.deliver(0, scene.other_report(0)) == ["CONFLICT"]
        assert list(scene.store.evidence(scene.digest)) == [(0, scene.other_report(0))]
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


def test_an_acknowledged_report_is_in_the_store(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        response = await scene.say(1, scene.report(1))
        assert response.acks == ((scene.digest, AckStatus.ACCEPTED),)
        assert scene.store.report(scene.digest, 1) == scene.report(1)
        await scene.finish()

    play(scenario)


def test_who_has_answered_is_not_asked_again(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        assert (await scene.say(0)).requests == (scene.payload,)
        assert (await scene.say(0, scene.report(0))).requests == ()
        assert (await scene.say(0)).requests == ()
        assert (await scene.say(1)).requests == (scene.payload,)
        await scene.finish()

    play(scenario)


def test_a_study_is_sent_along_to_those_who_do_not_know_it(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        assert (await scene.say(0)).studies == (scene.round.study,)
        knowing = encode_check_in(CheckIn(known_studies=(scene.round.study_digest,)))
        response = decode_response(await scene.call(knowing, metadata=scene.world.metadata(0)))
        assert response.studies == ()
        assert response.requests == (scene.payload,)
        await scene.finish()

    play(scenario)


def test_a_request_that_was_never_made(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        unknown = encode_report(Report(bytes(32), b"\x00", 0, 0))
        assert await scene.deliver(0, unknown) == ["UNKNOWN"]
        assert list(scene.store.reports(bytes(32))) == []
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


def test_a_request_that_was_made_to_others(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.deliver(USERS, scene.report(0)) == ["UNKNOWN"]
        assert scene.store.report(scene.digest, USERS) is None
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


@pytest.mark.parametrize(
    "outcome",
    [b"\x02", b"", b"\x00\x00", b"\xff", bytes(1000)],
    ids=["beyond the last symbol", "empty", "too long", "reserved for missing", "much too long"],
)
def test_a_symbol_outside_the_alphabet(play: Play, outcome: bytes) -> None:
    async def scenario(scene: Scene) -> None:
        report = encode_report(Report(scene.digest, outcome, 1, 1))
        assert await scene.deliver(0, report) == ["MALFORMED"]
        assert scene.store.report(scene.digest, 0) is None
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


def test_a_charge_that_the_question_never_costs(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        too_much = scene.round.groups[0].nano_nats + 1
        lies = [
            Report(scene.digest, b"\x00", too_much, too_much),
            Report(scene.digest, b"\x00", 2, 1),
            Report(scene.digest, b"\x00", 0, 1 << 63),
            Report(scene.digest, Refusal(Why.EXPIRED, "no"), 1, 1),
        ]
        for lie in lies:
            assert await scene.deliver(0, encode_report(lie)) == ["MALFORMED"]
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


def test_after_the_round_only_what_was_counted_is_a_duplicate(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.finish()
        assert await scene.deliver(0, scene.report(0)) == ["DUPLICATE"]
        assert await scene.deliver(0, scene.other_report(0)) == ["LATE"]
        assert list(scene.store.evidence(scene.digest)) == []

    play(scenario)


def test_a_round_that_was_closed_early_takes_nothing_more(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.deliver(0, scene.report(0)) == ["ACCEPTED"]

        async def close() -> bool:
            return scene.server.hub.close_round(scene.round.study_digest)

        assert await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(close(), scene.server.loop)
        )
        assert scene.asking is not None
        (tally,) = await scene.asking
        assert (tally.asked, tally.answered) == (3, 1)
        assert await scene.deliver(1, scene.report(1)) == ["LATE"]
        assert (await scene.say(1)).requests == ()
        assert scene.store.report(scene.digest, 1) is None

    play(scenario)


def test_reports_of_one_message_are_acknowledged_one_by_one(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        unknown = encode_report(Report(bytes(32), b"\x00", 0, 0))
        both = await scene.deliver(0, unknown, scene.report(0), scene.report(0))
        assert both == ["UNKNOWN", "ACCEPTED", "DUPLICATE"]
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


def test_one_request_answered_twice_in_a_message_counts_once(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        both = await scene.deliver(0, scene.report(0), scene.report(0))
        assert both == ["ACCEPTED", "DUPLICATE"]
        both = await scene.deliver(1, scene.report(1), scene.other_report(1))
        assert both == ["ACCEPTED", "CONFLICT"]
        assert list(scene.store.evidence(scene.digest)) == [(1, scene.other_report(1))]
        assert (await scene.finish(),) == scene.expected()

    play(scenario)


def test_of_two_sequence_numbers_of_a_report_the_last_is_kept(play: Play) -> None:
    """The rest of such a report is not equal to another user's: it is checked by itself."""

    async def scenario(scene: Scene) -> None:
        mine = decode_report(scene.report(0))
        first = encode_report(mine._replace(sequence=900))
        unnumbered = len(encode_report(mine._replace(sequence=0)))
        last = encode_report(mine._replace(sequence=7))[unnumbered:]
        assert decode_report(first + last).sequence == 7
        assert await scene.deliver(0, first + last) == ["ACCEPTED"]
        assert scene.store.report(scene.digest, 0) == first + last
        assert scene.store.acknowledged_sequence(0) == 7
        assert await scene.deliver(0, scene.report(0)) == ["CONFLICT"]
        for ordinal in (1, 2):
            await scene.deliver(ordinal, scene.report(ordinal))
        assert scene.asking is not None
        assert (await scene.asking) == scene.expected()

    play(scenario)


def test_acknowledgements_of_many_messages_stay_within_what_a_device_takes(play: Play) -> None:
    async def scenario(scene: Scene) -> None:
        unknown = tuple(
            encode_report(Report(bytes([n]) * 32, b"\x00", 0, 0)) for n in range(MAX_REPORTS)
        )
        stream = scene.stream(metadata=scene.world.metadata(0))
        await stream.write(encode_check_in(CheckIn(reports=unknown)))
        for _ in range(4):
            await stream.write(encode_check_in(CheckIn(reports=unknown)))
        acknowledged = 0
        while acknowledged < 5 * MAX_REPORTS:
            data = await stream.read()
            assert isinstance(data, bytes)
            acknowledged += len(decode_response(data).acks)
        await scene.finish()

    play(scenario)
