"""Work on a record: which coins draw what, the law of what leaves, and messages that are heavy."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.queries import predicate, vector
from askance_client.codec import decode_report, digest_of
from askance_client.device import RecordWork
from askance_client.device.settling import MAX_WEIGHT
from askance_client.messages import Reason, SignedStudy
from askance_client.queries import EncodedRecord
from askance_client.queries.limits import MAX_WEIGHT as MAX_QUERY_WEIGHT
from askance_client.randomizers import COIN_SPACE, Channel, Coins, RandomCodebook
from askance_simulation.randomness import Seed, SeededCoins
from tests.client.randomizers.test_draw_costs import COSTS

if TYPE_CHECKING:
    from tests.client.device.conftest import ChosenCoins, DeviceSetup

QUARTER = COIN_SPACE // 4
WARNER = Channel(((3 * QUARTER, QUARTER), (QUARTER, 3 * QUARTER)))  # the truth with 3/4


def worked(setup: DeviceSetup, coins: Coins, value: int = 1) -> tuple[RecordWork, bytes]:
    """Work on one question of a record with that value; the public default is 0."""
    study = setup.study()
    device = setup.device({**RECORD, "smoker": value}, studies=[study], coins=coins)
    query = predicate(setup.schema.smoker == 1, default=0)
    payload = setup.payload(study, query, WARNER)
    turn = device.begin([payload])
    turn.close()
    return device._work(turn.work._asked), digest_of(payload)


RECORD: dict[str, Any] = {"smoker": 1, "colour": "green", "height": Fraction(5, 2)}


class TestCoins:
    """Coins are taken beforehand, in a number that the request fixes."""

    @pytest.mark.parametrize("value", [0, 1])
    def test_the_first_coins_draw_the_value_and_others_the_stand_in(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins], value: int
    ) -> None:
        """A low coin keeps level 0; level 1 is told by a coin of a quarter or more."""
        coins = chosen_coins([QUARTER, COIN_SPACE - 1])
        work, digest = worked(setup, coins, value)
        work.prepare()
        assert coins.draws == [1, 1]
        assert work._stand_ins == {digest: b"\x01"}  # default 0 by the greatest coin: flipped
        work.evaluate()
        work.fix()
        work.draw()
        assert work.end() == {digest: bytes([value])}
        assert coins.draws == [1, 1]
        assert work.missed == 0

    def test_in_place_no_stand_in_is_drawn_and_no_coin_taken_for_it(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        coins = chosen_coins([QUARTER])
        work, digest = worked(setup, coins)
        work.answer()
        assert work.end() == {digest: b"\x01"}
        assert coins.draws == [1]

    @pytest.mark.parametrize("seed", range(8))
    def test_a_draw_in_time_is_the_one_that_is_made_in_place(
        self, setup: DeviceSetup, seed: int
    ) -> None:
        """By the same coins a simulation gives the answers that timed devices give."""
        coins = SeededCoins(Seed.of(seed)).at(0)
        in_place, _ = worked(setup, coins)
        in_place.answer()
        timed, _ = worked(setup, coins)
        timed.prepare()
        timed.evaluate()
        timed.fix()
        timed.draw()
        assert timed.end() == in_place.end()

    def test_what_was_not_used_is_forgotten(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        work, _ = worked(setup, chosen_coins())
        work.prepare()
        work.evaluate()
        work.fix()
        work.draw()
        work.end()
        kept = (work._words, work._values, work._fixed, work._drawn, work._stand_ins)
        assert not any(kept)

    def test_a_turn_that_is_closed_is_forgotten(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        """A later turn that draws by equal coins would tell the value of its report."""
        study = setup.study()
        query = predicate(setup.schema.smoker == 1, default=0)
        turn = setup.device(studies=[study]).begin([setup.payload(study, query, WARNER)])
        turn.work.prepare()
        assert turn.work._words
        turn.close()
        assert not any((turn.work._words, turn.work._stand_ins))

    def test_coins_of_a_stand_in_are_taken_by_a_name_of_their_own(self, setup: DeviceSetup) -> None:
        """Seeded coins are a function of the name: one name twice would be one draw twice."""
        names: list[bytes] = []

        class Named:
            def words(self, request: bytes, count: int) -> tuple[int, ...]:
                names.append(request)
                return (0,) * count

        work, digest = worked(setup, Named())
        work.prepare()
        assert len(names) == 2
        assert names[0] == digest
        assert names[1] != digest

    @pytest.mark.parametrize("late", ["nothing", "value", "draw"])
    @pytest.mark.parametrize("value", [0, 1])
    def test_the_law_of_what_leaves_by_all_coins(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins], late: str, value: int
    ) -> None:
        """Enumerate coins in quarters: the row of the value, or the row of the default 0."""
        seen = Counter[bytes]()
        for quarters in product(range(4), repeat=2):
            coins = chosen_coins([quarter * QUARTER for quarter in quarters])
            work, digest = worked(setup, coins, value)
            work.prepare()
            if late != "value":
                work.evaluate()
            work.fix()
            if late != "draw":
                work.draw()
            seen[work.end()[digest]] += 1
        row = value if late == "nothing" else 0
        assert seen == {bytes([row]): 12, bytes([1 - row]): 4}


class TestSteps:
    """Late steps change nothing that was fixed."""

    def test_a_value_after_its_time_is_discarded(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        work, digest = worked(setup, chosen_coins([QUARTER, QUARTER]))
        work.prepare()
        work.fix()
        work.evaluate()
        work.draw()
        assert work.end() == {digest: b"\x00"}  # the default by the coin that keeps it

    def test_a_value_that_is_evaluated_at_its_time_is_discarded(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        """T1 comes while the source is being read; nothing is read for the request after it."""
        study = setup.study()
        device = setup.device(studies=[study], coins=chosen_coins([QUARTER] * 4))
        smokes, small = setup.schema.smoker == 1, setup.schema.height < 4  # both hold
        payloads = [
            setup.payload(study, predicate(asked, default=0), WARNER) for asked in (smokes, small)
        ]
        turn = device.begin(payloads)
        turn.close()
        loads: list[None] = []

        class Slow:
            def load(self) -> EncodedRecord:
                loads.append(None)
                work.fix()
                return setup.schema.encode(RECORD)

        work = RecordWork(Slow(), chosen_coins([QUARTER] * 4), turn.work._asked)
        work.prepare()
        work.evaluate()
        work.draw()
        assert len(loads) == 1
        assert work.end() == dict.fromkeys(map(digest_of, payloads), b"\x00")

    def test_nothing_is_read_when_it_is_over(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        """A thread may begin late; what it read would stay in memory."""
        work, _ = worked(setup, chosen_coins())
        loads: list[None] = []
        work._record = Unread(loads)
        work.prepare()
        work.fix()
        work.draw()
        work.end()
        work.evaluate()
        assert loads == []

    @pytest.mark.parametrize("error", [OSError, ZeroDivisionError, RecursionError, LookupError])
    def test_whatever_a_source_raises_leaves_the_default_and_the_next_request(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins], error: type[Exception]
    ) -> None:
        study = setup.study()
        device = setup.device(studies=[study])
        smokes, small = setup.schema.smoker == 1, setup.schema.height < 4  # both hold
        first, second = (
            setup.payload(study, predicate(asked, default=0), WARNER) for asked in (smokes, small)
        )
        turn = device.begin([first, second])
        turn.close()
        errors = [error]

        class Failing:
            def load(self) -> EncodedRecord:
                if errors:
                    raise errors.pop()
                return setup.schema.encode(RECORD)

        work = RecordWork(Failing(), chosen_coins([QUARTER] * 2), turn.work._asked)
        work.answer()
        assert work.end() == {digest_of(first): b"\x00", digest_of(second): b"\x01"}

    def test_the_class_of_the_lightest_draw_that_was_missed_is_noted(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        study = setup.study(budget=10**12)
        device = setup.device(studies=[study], life_nano_nats=10**12)
        light = setup.payload(study, predicate(setup.schema.smoker == 1, default=0), WARNER)
        turn = device.begin([heavy(setup, study, 0), light, heavy(setup, study, 1)])
        turn.work.prepare()
        turn.work.fix()
        turn.work.end()
        assert turn.work.missed == 22  # as of one light question
        turn.close()

    def test_a_draw_after_its_time_is_discarded_and_noted(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        work, digest = worked(setup, chosen_coins([QUARTER, 0]))
        work.prepare()
        work.evaluate()
        work.fix()
        assert work.end() == {digest: b"\x00"}
        assert work.missed == 22  # six of the query, sixteen of the draw
        work.draw()
        assert work._drawn == {}


def heavy(setup: DeviceSetup, study: SignedStudy, number: int) -> bytes:
    """A question of 1,024 numbers by three bases: a draw of 98,512 units."""
    query = vector([setup.schema.height] * 1_024, 0, 4, default=0)
    book = RandomCodebook(1_024, 1_000 + number, 3, 100, COIN_SPACE // 8 * 5)
    return setup.payload(study, query, book)


class TestWeight:
    """Weights bound the work of one turn before any record is read."""

    def test_the_heaviest_question_of_any_family_fits_a_turn(self) -> None:
        assert max(cost for _, cost in COSTS) + MAX_QUERY_WEIGHT <= MAX_WEIGHT

    def test_what_does_not_fit_is_left_for_the_next_turn_uncharged(
        self, setup: DeviceSetup
    ) -> None:
        study = setup.study(budget=10**12)
        device = setup.device(studies=[study], life_nano_nats=10**12)
        payloads = [heavy(setup, study, number) for number in range(15)]
        turn = device.begin(payloads)
        turn.close()
        each = 16 + 3 * 1_026 * 32 + turn.work._asked[0].request.query.expression.weight
        fit = MAX_WEIGHT // each
        assert (turn.work.weight, turn.left) == (fit * each, tuple(payloads[fit:]))
        assert turn.refusals == ()
        assert list(device.ledger.history()) == []

    def test_a_light_question_behind_heavy_ones_still_fits(self, setup: DeviceSetup) -> None:
        study = setup.study(budget=10**12)
        device = setup.device(studies=[study], life_nano_nats=10**12)
        payloads = [heavy(setup, study, number) for number in range(14)]
        light = setup.payload(study, predicate(setup.schema.smoker == 1, default=0), WARNER)
        turn = device.begin([*payloads, light])
        turn.close()
        assert light not in turn.left
        assert len(turn.left) == 1

    def test_after_a_missed_draw_its_class_of_weights_is_refused_for_an_hour(
        self, setup: DeviceSetup
    ) -> None:
        """Weights from 65,536 on are refused, by requests alone; light questions are answered."""
        setup.now_s -= setup.now_s % 3_600
        study = setup.study(budget=10**12)
        device = setup.device(studies=[study], life_nano_nats=10**12)
        turn = device.begin([heavy(setup, study, 0)])
        turn.work.prepare()
        turn.work.fix()
        ((_, report),) = turn.finish().items()
        assert isinstance(decode_report(report).outcome, bytes)  # the stand-in, and charged
        loads: list[None] = []
        device._record = Unread(loads)
        refusal = setup.refusal(device, heavy(setup, study, 1))
        assert refusal.reason is Reason.INVALID_RANDOMIZER
        assert "expected at most 65535 this hour" in refusal.message
        assert loads == []
        light = setup.payload(study, predicate(setup.schema.smoker == 1, default=0), WARNER)
        assert isinstance(setup.answer(device, light).outcome, bytes)
        setup.now_s += 3_600
        turn = device.begin([heavy(setup, study, 1)])
        turn.close()
        assert turn.pending

    def test_a_light_draw_that_was_missed_refuses_no_light_question(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        study = setup.study()
        device = setup.device(studies=[study])
        query = predicate(setup.schema.smoker == 1, default=0)
        turn = device.begin([setup.payload(study, query, WARNER)])
        turn.work.prepare()
        turn.work.fix()
        turn.finish()
        assert device._heavy[1] == 4_096


class Unread:
    """A record whose reads are counted."""

    def __init__(self, loads: list[None]) -> None:
        self.loads = loads

    def load(self) -> EncodedRecord:
        self.loads.append(None)
        raise OSError
