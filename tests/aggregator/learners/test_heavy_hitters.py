"""Heavy hitters: what is asked about prefixes, what is promised, and what is refused."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    HeavyHitter,
    HeavyHitters,
    Question,
    bits_of_text,
    find,
    heavy_hitters,
    hypothesis_from_json,
    text_of_bits,
)
from askance_aggregator.learners.assessments import assess
from askance_aggregator.learners.heavy_hitters import _confirmed
from askance_aggregator.learners.prefixes import Domain, text_of
from askance_aggregator.oracles import CheckedOracle, ExactOracle, Oracle, WrongSideOracle, learn
from askance_aggregator.planning import plan, plan_batch
from askance_aggregator.queries import encode_columns, evaluate_columns
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Bits, Category, Field, Integer, Real, Schema
from askance_client.records import Table
from askance_client.records.tables import text_bits
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population

WIDTH = 8
FIELDS: dict[str, tuple[Field, list[Any]]] = {
    "bits": (Bits(WIDTH), ["".join(bits) for bits in product("01", repeat=WIDTH)]),
    "whole numbers": (Integer(-7, 193), list(range(-7, 194))),
    "labels": (Category(range(40)), [str(label) for label in range(40)]),
    "a bit": (Bits(1), ["0", "1"]),
    "one label": (Category(["only"]), ["only"]),
}


class Watched:
    """Another oracle, and what it was asked."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.asked = CheckedOracle(oracle), list[Batch]()

    def answer(self, batch: Batch) -> Answers:
        self.asked.append(batch)
        return self.oracle.answer(batch)


def written(value: str | int, field: Field) -> str:
    """Return the value's bits, the most significant first, by the rules of `heavy_hitters`."""
    if isinstance(field, Bits):
        return str(value)
    if isinstance(field, Integer):
        number, last = int(value) - field.low, field.high - field.low
    else:
        assert isinstance(field, Category)
        number, last = field.labels.index(str(value)), len(field.labels) - 1
    return f"{number:b}".zfill(max(last.bit_length(), 1))


class TestCells:
    @pytest.mark.parametrize("name", FIELDS)
    def test_everybody_is_in_the_cell_of_how_their_prefix_goes_on(self, name: str) -> None:
        """All values, and every way to cut their bits."""
        field, values = FIELDS[name]
        schema = Schema("s", 1, value=field)
        domain = Domain(schema, "value")
        records = encode_columns(schema, {"value": np.array(values, dtype=object)})
        for length, until in product(range(domain.width), range(1, domain.width + 1)):
            if not length < until:
                continue
            prefixes = [0] if length == 0 else sorted({(1 << length) - 1, 5 % (1 << length), 0})
            texts = [f"{prefix:b}".zfill(length)[:length] for prefix in prefixes]
            query = domain.extensions(prefixes, length, until)
            ways = 1 << (until - length)
            assert query.cells <= len(prefixes) * ways + 1
            expected = []
            for bits in (written(value, field) for value in values):
                known = [place for place, text in enumerate(texts) if bits.startswith(text)]
                goes_on = int(bits[length:until], 2)
                expected.append(1 + known[0] * ways + goes_on if known else 0)
            assert np.asarray(evaluate_columns(query, records)).tolist() == expected

    @pytest.mark.parametrize("name", FIELDS)
    def test_who_has_no_value_is_in_the_first_cell(self, name: str) -> None:
        schema = Schema("s", 1, value=FIELDS[name][0])
        query = Domain(schema, "value").extensions([0], 0, 1)
        assert query.evaluate(schema.encode({})) == 0

    @pytest.mark.parametrize("name", FIELDS)
    def test_a_value_is_named_as_people_do(self, name: str) -> None:
        field, values = FIELDS[name]
        schema = Schema("s", 1, value=field)
        domain = Domain(schema, "value")
        for value in values:
            assert domain.value(int(written(value, field), 2)) == value
            grid = schema.encode({"value": value}).values["value"]
            assert domain.named(grid if isinstance(grid, tuple) else (grid,)) == value

    @pytest.mark.parametrize("field", [Integer(-(2**60), 2**61), Bits(256)])
    def test_the_largest_domains_can_be_asked_about(self, field: Field) -> None:
        """With as many prefixes as there may be, at every length."""
        schema = Schema("s", 1, value=field)
        domain = Domain(schema, "value")
        top: str | int = "1" * 256 if isinstance(field, Bits) else 2**61
        record = schema.encode({"value": top})
        bits = written(top, field)
        for length in range(8, domain.width, 31):
            own = int(bits[:length], 2)
            prefixes = sorted({own ^ other for other in range(256)})
            query = domain.extensions(prefixes, length, min(length + 4, domain.width))
            ways = (query.cells - 1) // 256
            goes_on = int(bits[length : length + 4], 2)
            assert query.evaluate(record) == 1 + prefixes.index(own) * ways + goes_on
            assert len(query.nodes) < 100


SCHEMA = Schema("s", 1, word=Bits(WIDTH), age=Integer(0, 99), height=Real(0, 1))
RNG = np.random.default_rng(4)
WORDS = [f"{word * 37 % 256:08b}" for word in np.minimum(RNG.geometric(0.3, 3_000), 60)]
ORACLE = ExactOracle(SCHEMA, {"word": WORDS})
NO_VALUE = "no value has a share of 1/5 or more"
SHARES = {word: Fraction(count, len(WORDS)) for word, count in Counter(WORDS).items()}


def one_threshold(at: float, question: Question) -> tuple[float, ...]:
    return (at,) * question.values


class TestSearch:
    @pytest.mark.parametrize("bits", [1, 2, 3, 8])
    def test_exact_answers_find_exactly_what_is_frequent(self, bits: int) -> None:
        found = learn(heavy_hitters(SCHEMA, "word", "1/20", bits, "1/100"), ORACLE).found
        frequent = {word: share for word, share in SHARES.items() if share >= Fraction(1, 20)}
        assert {item.value: item.estimate for item in found} == {
            word: float(share) for word, share in frequent.items()
        }
        assert len(frequent) > 3
        estimates = [item.estimate for item in found]
        assert estimates == sorted(estimates, reverse=True)

    @pytest.mark.parametrize("bits", [1, 3])
    @pytest.mark.parametrize("tau", [Fraction(1, 50), Fraction(1, 12)])
    def test_the_promise_holds_under_answers_that_are_off_as_it_hurts(
        self, bits: int, tau: Fraction
    ) -> None:
        threshold = Fraction(1, 10)
        learner = heavy_hitters(SCHEMA, "word", threshold, bits, tau)
        oracle = WrongSideOracle(ORACLE, partial(one_threshold, float(threshold)))
        found = {item.value for item in learn(learner, CheckedOracle(oracle)).found}
        assert {word for word, share in SHARES.items() if share >= threshold + tau} <= found
        assert all(SHARES[str(word)] > threshold - tau for word in found)

    def test_the_first_round_has_the_bits_that_later_ones_spend_on_prefixes(self) -> None:
        """Fewer than 1/(1/10 - 1/20) = 20 prefixes: 2 bits are then 76 cells, 6 bits are 64."""
        learner = heavy_hitters(SCHEMA, "word", "1/10", 2, "1/20")
        watched = Watched(ORACLE)
        learn(learner, watched)
        cells = [batch.questions[0].values for batch in watched.asked]
        assert cells[0] == 2**6 + 1
        assert len(cells) == 2
        assert cells[1] <= 19 * 2**2 + 1

    def test_the_plan_is_for_as_many_prefixes_as_there_can_be(self) -> None:
        rounds = plan(heavy_hitters(SCHEMA, "word", bits=2), 10**9, 0.01).rounds
        cells = [item.groups[0].query.cells for item in rounds]
        assert cells == [2**6 + 1, 19 * 2**2 + 1]

    def test_who_has_no_value_is_no_value(self) -> None:
        words = np.array(["00000000", *[None] * 9], dtype=object)
        nobody = ExactOracle(SCHEMA, {"word": words})
        assert learn(heavy_hitters(SCHEMA, "word", "1/5", 8), nobody).found == ()

    def test_it_ends_where_nothing_is_frequent(self) -> None:
        everything = [f"{value:08b}" for value in range(256)]
        watched = Watched(ExactOracle(SCHEMA, {"word": everything}))
        found = learn(heavy_hitters(SCHEMA, "word", bits=2), watched)
        assert (found.found, len(watched.asked)) == ((), 1)
        assert str(found) == "word at 1/10 or more: none"

    def test_a_number_that_no_value_has_is_never_found(self) -> None:
        """100 .. 127 begin like numbers up to 99; an oracle may say that many have them."""
        liar = WrongSideOracle(ExactOracle(SCHEMA, {"age": [99] * 10}), partial(one_threshold, 0.5))
        found = learn(heavy_hitters(SCHEMA, "age", "1/2", 2, "2/5"), CheckedOracle(liar)).found
        assert [item.value for item in found if isinstance(item.value, int)] == [99]

    def test_texts_are_found_by_a_fleet(self) -> None:
        """Three texts among 203 of up to 8 bytes, in 8 rounds of fresh users."""
        names = ["Oslo", "Lausanne", "Łódź", *(f"no. {i}" for i in range(200))]
        weights = np.array([0.4, 0.3, 0.2, *[0.1 / 200] * 200])
        chosen = np.random.default_rng(5).choice(len(names), size=50_000, p=weights)
        schema = Schema("towns", 1, town=Bits(64))
        digits = np.array([list(map(int, bits_of_text(name, 64))) for name in names], np.int8)
        people = Population.from_columns(schema, {"town": digits[chosen]})
        study = Study(heavy_hitters(schema, "town", "1/8", 8, "3/40"), schema, epsilon=4)
        found = simulate(study, people, fleet="columns", seed=2).hypothesis.found
        texts = [text_of_bits(str(item.value)) for item in found]
        assert texts == ["Oslo", "Lausanne", "Łódź"]
        shares = np.bincount(chosen, minlength=3)[:3] / len(chosen)
        assert [item.estimate for item in found] == pytest.approx(shares, abs=0.05)
        pairs = zip(found, shares, strict=True)
        assert all(item.low <= share <= item.high for item, share in pairs)


class TestDefaults:
    @pytest.mark.parametrize(
        ("users", "epsilon", "kept", "beyond"),
        [(5_000, 1, 4, 5), (50_000, 1, 15, 20), (50_000, 4, 60, 80)],
    )
    def test_the_threshold_is_the_least_whose_half_the_users_keep_as_tau(
        self, users: int, epsilon: int, kept: int, beyond: int
    ) -> None:
        budget = epsilon * 10**9
        made = plan(heavy_hitters(SCHEMA, "word"), budget, 0.05, users)
        assert (made.feasible, made.settings) == (True, {"threshold": f"1/{kept}"})
        assert sum(item.users for item in made.rounds) == users
        for part, fits in ((kept, True), (beyond, False)):
            learner = heavy_hitters(SCHEMA, "word", Fraction(1, part), tau=Fraction(1, 2 * part))
            assert plan(learner, budget, 0.05, users).feasible is fits

    def test_fewer_users_than_any_threshold_needs_are_asked_all_the_same(self) -> None:
        made = plan(heavy_hitters(SCHEMA, "word"), 10**9, 0.05, 50)
        assert (made.feasible, made.settings) == (True, {"threshold": "1/2"})

    @pytest.mark.parametrize(("threshold", "tau"), [(None, "1/20"), ("1/50", "1/100")])
    def test_a_plan_without_users_is_for_half_of_the_threshold(
        self, threshold: str | None, tau: str
    ) -> None:
        made = plan(heavy_hitters(SCHEMA, "word", threshold), 10**9, 0.05)
        assert made.settings["tau"] == tau

    def test_a_threshold_that_is_given_is_asked_of_few_users_too(self) -> None:
        """A tau of 1/20, the former default, refused it."""
        made = plan(heavy_hitters(SCHEMA, "word", "1/50"), 10**9, 0.05, 300)
        assert (made.feasible, made.settings) == (True, {})

    @pytest.mark.parametrize(
        ("reach", "values", "line"),
        [
            (0.05, ["a", "b"], "share of 1/5 or more; a value with more than 25 % is not missed"),
            (0.3, ["a"], "share of 1/5 or more; a value with more than 60 % is not missed"),
            (0.45, [], f"{NO_VALUE}; a value with more than 90 % is not missed"),
            (0.6, [], f"{NO_VALUE}; so few answers may miss any value"),
        ],
    )
    def test_a_value_is_found_if_its_interval_excludes_none(
        self, reach: float, values: list[str], line: str
    ) -> None:
        class Drawn:
            def answer(self, batch: Batch) -> Answers:
                shares = (0.0, 0.4, 0.25, 0.15, 0.0)
                lows = tuple(max(share - reach, 0.0) for share in shares)
                return (Answer(shares, lows, tuple(share + reach for share in shares)),)

        schema = Schema("s", 1, town=Category(["a", "b", "c", "d"]))
        found = learn(heavy_hitters(schema, "town", "1/5"), Drawn())
        assert [item.value for item in found.found] == values
        assert found.present().lines == (line,)

    def test_rounds_are_as_few_as_eight_bits_each_allow(self) -> None:
        """Twelve bits in one round, and 16 in two of 6: the first has 10, as 19 prefixes follow."""
        for width, cells in ((12, [4097]), (16, [1025, 19 * 64 + 1])):
            schema = Schema("s", 1, word=Bits(width))
            rounds = plan(heavy_hitters(schema, "word", "1/10"), 10**9, 0.05).rounds
            assert [item.groups[0].query.cells for item in rounds] == cells


class TestBitsOfARound:
    """A study leaves the bits of a round to its plan, the single question included."""

    SIXTEEN = Schema("s", 1, word=Bits(16))

    @pytest.mark.parametrize(
        ("width", "epsilon", "most", "cells"),
        [
            (16, ".25", 714_000, [1 + 2**16]),
            (16, "1", 46_913, [1 + 2**16]),
            (16, "4", 2_900, [1 + 2**16]),
            (16, "8", 2_800, [1 + 2**16]),
            (24, "1", 80_000, [1 + 2**14, 1 + 19 * 2**10]),
            (24, "8", 6_000, [1 + 2**14, 1 + 19 * 2**10]),
        ],
    )
    def test_the_plan_takes_what_needs_the_fewest_users(
        self, width: int, epsilon: str, most: int, cells: list[int]
    ) -> None:
        """At epsilon 1 six bits take 63,657 users for 16 bits, eight take 106,935 for 24."""
        schema = Schema("s", 1, word=Bits(width))
        made = Study(heavy_hitters(schema, "word"), schema, epsilon=epsilon).plan()
        assert [item.groups[0].query.cells for item in made.rounds] == cells
        assert made.users_needed <= most

    def test_that_it_is_left_to_the_plan_is_signed(self) -> None:
        """A study that was signed without it asks what it asked: two rounds of 6 bits."""
        learner = heavy_hitters(self.SIXTEEN, "word", "1/10", tau="1/20")
        study = Study(learner, self.SIXTEEN, epsilon=1)
        assert "bits" not in learner.parameters
        assert study.learner.parameters["bits"] == "0"
        assert study.plan().settings["bits"] == "12"
        before = [item.groups[0].query.cells for item in plan(learner, 10**9, 0.01).rounds]
        assert before == [1 + 2**10, 1 + 19 * 2**6]

    def test_bits_that_are_given_are_kept(self) -> None:
        learner = heavy_hitters(self.SIXTEEN, "word", bits=6)
        assert Study(learner, self.SIXTEEN, epsilon=1).learner.parameters["bits"] == "6"

    def test_users_that_are_few_get_a_threshold_for_the_best_bits(self) -> None:
        """A single question keeps 1/10 / 2 with 46,913 users or fewer."""
        study = Study(heavy_hitters(self.SIXTEEN, "word"), self.SIXTEEN, epsilon=1)
        made = study.plan(60_000)
        assert Fraction(made.settings["threshold"]) <= Fraction(1, 10)
        assert [item.users for item in made.rounds] == [60_000]

    @pytest.mark.parametrize(("width", "epsilon"), [(16, 8), (24, 1), (24, 4), (24, 8)])
    def test_a_round_with_fewer_prefixes_needs_no_more_users_than_planned(
        self, width: int, epsilon: int
    ) -> None:
        """The chance of an error fell with the cells, so a study stopped in the middle."""
        schema = Schema("s", 1, word=Bits(width))
        learner = heavy_hitters(schema, "word", "1/10", 4, "1/20")
        planned = plan(learner, epsilon * 10**9, 0.01)
        watched = Watched(ExactOracle(schema, {"word": ["01" * (width // 2)] * 9}))
        learn(learner, watched)
        assert len(watched.asked) == len(planned.rounds) > 1
        for batch, rehearsed in zip(watched.asked, planned.rounds, strict=True):
            asked = plan_batch(batch, epsilon * 10**9, planned.beta_per_value)
            assert asked.users <= rehearsed.users


class TestTextsWithoutAList:
    SCHEMA = Schema("s", 1, town=Bits(288))
    LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"

    def people(self) -> Population:
        texts = ["Oslo"] * 400 + ["Łódź"] * 250 + [self.LONG] * 200 + ["Oslo 2"] * 40
        cells = [(text,) for text in [*texts, *(f"no. {place}" for place in range(110))]]
        column = Table("t", ("town",), ("town",), cells).column("town", self.SCHEMA.fields["town"])
        return Population.from_columns(self.SCHEMA, {"town": column})

    def test_they_are_found_by_a_hash_and_read_by_a_second_look(self) -> None:
        people = self.people()
        learner = heavy_hitters(self.SCHEMA, "town", "1/10", tau="1/20")
        watched = Watched(ExactOracle(self.SCHEMA, people.columns(0, people.size)))
        found = learn(learner, watched)
        shares = [(item.value, item.estimate) for item in found.found]
        long = "Llanfairpwllgwyngyllgogerychwyrn..."
        assert shares == [("Oslo", 0.4), ("Łódź", 0.25), (long, 0.2)]
        assert [len(batch.questions) for batch in watched.asked] == [1, 1, 1, 1, 32]
        assert {batch.questions[0].tau for batch in watched.asked[:4]} == {Fraction(1, 20)}
        assert watched.asked[4].questions[0].tau == Fraction(3, 40)
        assessment = assess(found, learner, people)
        assert assessment.success
        assert [item["value"] for item in assessment.details["true"]] == ["Oslo", "Łódź", long]

    def test_the_plan_is_for_the_longest_texts(self) -> None:
        rounds = plan(heavy_hitters(self.SCHEMA, "town", "1/10"), 10**9, 0.05).rounds
        assert [item.queries for item in rounds] == [1, 1, 1, 1, 32]

    @pytest.mark.parametrize(
        ("second", "text"), [((), "Oslo"), ((1, 3), "Oslo"), (None, None)], ids=str
    )
    def test_bytes_that_are_not_sure_are_settled_by_the_hash(
        self, second: tuple[int, ...] | None, text: str | None
    ) -> None:
        """Shares of the bytes by place; a wrong byte is ahead by little, or right ones are absent.

        The head of "Oslo": 28 for four bytes, and the first 26 bits of 43152cc9.
        """
        shares = np.zeros((4, 256))
        for place, byte in enumerate(b"Oslo"):
            shares[place, byte] = 0.3 if second is not None else 0
            shares[place, ord("x")] = 0.31 if second is None or place in second else 0.1
        assert _confirmed((28 << 26) + (0x43152CC9 >> 6), shares) == text

    def test_a_text_that_the_hash_does_not_confirm_is_shown_by_its_head(self) -> None:
        assert Domain(self.SCHEMA, "town").value((28 << 26) + (0x43152CC9 >> 6)) == "#710c54b3"


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"column": "height"}, "expected bits, a whole number or a category, got 'height'"),
            ({"column": "weight"}, "expected one of the fields word"),
            ({"threshold": "1"}, "threshold expects a share"),
            ({"threshold": "0"}, "threshold expects a share"),
            (
                {"threshold": "1/10", "tau": "1/10"},
                "tau expects a positive number, below the threshold by 1/256",
            ),
            ({"tau": "0"}, "tau expects a positive number"),
            ({"threshold": "1/200", "tau": "1/400"}, "tau expects a positive number, below"),
            ({"bits": -1}, "bits expects a whole number from 1 on"),
            ({"bits": False}, "bits expects a whole number from 1 on"),
            ({"bits": 12, "threshold": "1/10"}, "at most 65536 cells of 19 prefixes, found 12"),
            ({"bits": 10**12}, "bits expects a whole number"),
            ({"bits": True}, "bits expects a whole number"),
        ],
    )
    def test_a_wrong_setting_is_named(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            heavy_hitters(SCHEMA, **{"column": "word", **settings})

    def test_a_field_that_is_too_large_is_named(self) -> None:
        with pytest.raises(InvalidParameter, match="word: expected at most 256 bits, found 257"):
            heavy_hitters(Schema("s", 1, word=Bits(257)), "word")
        with pytest.raises(InvalidQuery, match="could reach 2"):
            heavy_hitters(Schema("s", 1, n=Integer(-(2**61), 2**61)), "n")

    @pytest.mark.parametrize(
        ("found", "message"),
        [
            ([{"value": 1.5, "estimate": 0, "low": 0, "high": 0}], "a text as value"),
            ([{"value": "1", "estimate": 0, "low": 0}], "expected high, got none"),
            ({}, "a list as found"),
        ],
    )
    def test_what_is_no_saved_hypothesis_is_named(self, found: Any, message: str) -> None:
        data = {"column": "word", "threshold": "1/10", "found": found}
        with pytest.raises(InvalidParameter, match=message):
            hypothesis_from_json("heavy-hitters", data)


@pytest.mark.parametrize("value", ["0110", 17])
def test_it_is_read_as_it_was_written(value: str | int) -> None:
    item = HeavyHitter(value, 0.25, 0.2, 0.3)
    found = HeavyHitters("word", Fraction(1, 10), (item,))
    assert hypothesis_from_json("heavy-hitters", found.to_json()) == found
    assert str(found) == f"word at 1/10 or more: {value}: 0.25"


class TestTexts:
    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8))
    def test_a_text_is_read_as_it_was_written(self, text: str) -> None:
        bits = bits_of_text(text, 256)
        assert len(bits) == 256
        assert text_of_bits(bits) == text

    def test_a_byte_begins_with_its_greatest_bit(self) -> None:
        assert bits_of_text("A", 16) == "0100000100000000"
        assert text_of_bits("11111111") == "\N{REPLACEMENT CHARACTER}"

    @pytest.mark.parametrize(
        ("text", "width", "message"),
        [
            ("abc", 16, "at most 2 bytes, found 3"),
            ("a\0", 16, "without the character NUL"),
            ("\ud800", 64, "valid Unicode text"),
            ("a", 12, "width expects a multiple of 8"),
            ("a", 264, "width expects a multiple of 8"),
        ],
    )
    def test_what_cannot_be_written_is_refused(self, text: str, width: int, message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            bits_of_text(text, width)

    @pytest.mark.parametrize("bits", ["", "0101", "0000000a", "00000002"])
    def test_what_is_no_text_cannot_be_read(self, bits: str) -> None:
        with pytest.raises(InvalidParameter, match="eight per byte"):
            text_of_bits(bits)


def test_the_label_of_users_who_have_none_is_no_value_of_the_list() -> None:
    """An inferred category counts blanks as a label of its own, and 40 % was its top value."""
    schema = Schema("s", 1, town=Category(["(missing)", "a", "b", "c"]))
    rows = ["(missing)"] * 40 + ["a"] * 35 + ["b"] * 20 + ["c"] * 5
    learner = heavy_hitters(schema, "town", "3/20", 2, "1/20")
    found = learn(learner, ExactOracle(schema, {"town": rows}))
    assert [item.value for item in found.found] == ["a", "b"]
    assert found.without is not None
    assert found.without.share == pytest.approx(0.4)
    assert "40.0% of users without a value" in str(found)
    assert hypothesis_from_json("heavy-hitters", found.to_json()) == found
    assessment = assess(found, learner, Population.from_columns(schema, {"town": rows}))
    assert assessment.success
    assert assessment.truth == (0.35, 0.2)
    assert [item["value"] for item in assessment.details["true"]] == ["a", "b"]


LISTED = ["Oslo", "Lausanne", "Chur, Stadt", "Elsewhere"]
TOWNS = ["Oslo"] * 50 + ["Chur, Stadt"] * 30 + ["Bern"] * 15 + ["Lausanne"] * 5
TEXT = Schema("s", 1, town=Bits(288))
"""Texts by `records.text_bits`; "Bern" is in no list."""


def by_text(texts: list[str]) -> ExactOracle:
    bits = [text_bits(text) for text in texts]
    return ExactOracle(TEXT, {"town": bits})


class TestCandidates:
    def test_texts_of_a_list_are_found_in_one_round(self) -> None:
        watched = Watched(by_text(TOWNS))
        found = learn(heavy_hitters(TEXT, "town", "1/4", tau="1/8", candidates=LISTED), watched)
        assert {item.value: item.estimate for item in found.found} == {
            "Oslo": 0.5,
            "Chur, Stadt": 0.3,
        }
        assert found.others is not None
        assert (found.others.candidates, found.others.share) == (4, 0.15)
        ((question,),) = [batch.questions for batch in watched.asked]
        assert question.values == 5

    def test_the_list_is_signed_and_read_again(self) -> None:
        learner = heavy_hitters(TEXT, "town", candidates=["Chur, Stadt", "Oslo", "Oslo"])
        assert learner.parameters == {"column": "town", "candidates": '"Chur, Stadt",Oslo'}
        entry = find("heavy-hitters")
        text = entry.spell(learner, TEXT)
        assert entry.build(TEXT, text).parameters == learner.parameters

    @pytest.mark.parametrize("name", FIELDS)
    def test_every_value_has_its_cell(self, name: str) -> None:
        field, values = FIELDS[name]
        schema = Schema("s", 1, value=field)
        some = [str(value) for value in values[::3]]
        domain = Domain(schema, "value")
        names = dict(sorted((domain.bits_of(value), value) for value in some))
        records = encode_columns(schema, {"value": np.array(values, dtype=object)})
        cells = np.asarray(evaluate_columns(domain.among([*names]), records)).tolist()
        order = ["others", *names.values()]
        assert [order[cell] for cell in cells] == [
            str(value) if str(value) in some else "others" for value in values
        ]

    def test_more_texts_than_an_operation_has_constants(self) -> None:
        """4,096 edges fit one operation; of 9,000 texts each has its own cell."""
        texts = [f"no. {number}" for number in range(9_000)]
        domain = Domain(TEXT, "town")
        names = dict(sorted((domain.bits_of(text), text) for text in texts))
        records = encode_columns(TEXT, {"town": np.array([*map(text_bits, texts)], dtype=object)})
        cells = np.asarray(evaluate_columns(domain.among([*names]), records)).tolist()
        assert [[*names.values()][cell - 1] for cell in cells] == texts

    def test_texts_of_one_head_are_told_apart(self) -> None:
        """Two values whose first 32 bits are the same, as of a collision of the hash."""
        head = 28 << 26 | 12345
        values = [
            head << 256 | int.from_bytes(text.ljust(32, b"\0")) for text in (b"aaax", b"aaay")
        ]
        query = Domain(TEXT, "town").among(sorted(values))
        for cell, value in enumerate(sorted(values), start=1):
            assert query.evaluate(TEXT.encode({"town": f"{value:0288b}"})) == cell
        assert query.evaluate(TEXT.encode({})) == 0

    @pytest.mark.parametrize(
        ("field", "candidates", "message"),
        [
            (Bits(288), [], "expected 1 to 10,000 values, got 0"),
            (Bits(288), [str(n) for n in range(10_001)], "expected 1 to 10,000 values, got 10,001"),
            (Bits(288), ["x" * 1_000 + str(n) for n in range(200)], "at most 200,000 bytes"),
            (Category(["a", "b"]), ["a", "c"], "expected labels of value, got 'c'"),
            (Integer(0, 9), ["10"], "expected whole numbers of 0 to 9, got '10'"),
            (Integer(0, 9), ["1.5"], "expected whole numbers of 0 to 9, got '1.5'"),
            (Bits(3), ["0120"], "expected texts of 3 characters 0 and 1, got '0120'"),
            (Integer(0, 9), 7, "expected a list of values, got 7"),
            (Bits(288), ["Bern", "NA"], "do not stand for a missing value, got 'NA'"),
            (Bits(288), ["Bern "], "expected no space at its ends, got 'Bern '"),
            (Bits(288), ["x" * 150_000], "expected names with commas between them"),
        ],
    )
    def test_a_list_that_cannot_be_asked_about_is_refused(
        self, field: Field, candidates: Any, message: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=message):
            heavy_hitters(Schema("s", 1, value=field), "value", candidates=candidates)

    @pytest.mark.parametrize("text", ["a\nb", "a\r\nb", '"', "a, b", "'", '"\n"'])
    def test_texts_of_several_lines_are_candidates(self, text: str) -> None:
        learner = heavy_hitters(TEXT, "town", "1/4", tau="1/8", candidates=["Oslo", text])
        found = learn(learner, by_text([text] * 3 + ["Oslo"]))
        assert [item.value for item in found.found] == [text, "Oslo"]

    def test_one_value_in_two_forms_is_judged_once(self) -> None:
        """The form that the result does not have was counted as missed."""
        people = Population.from_arrow(
            {"age": [7] * 1_500 + [8] * 500}, Schema("s", 1, age=Integer(0, 9))
        )
        learner = heavy_hitters("age", threshold="1/2", candidates=["7", "7.0", "07"])
        result = simulate(learner, people, epsilon=4, seed=5, fleet="columns")
        assert result.to_json()["details"]["missed"] == []

    def test_bits_of_a_round_go_with_no_list(self) -> None:
        with pytest.raises(InvalidParameter, match="bits: expected none with candidates, got 4"):
            heavy_hitters(TEXT, "town", bits=4, candidates=LISTED)

    def test_devices_find_them_and_a_simulation_judges_the_list_alone(self) -> None:
        """3,000 users; Bern, a quarter of them, is in no list and is not missed."""
        rows = {"town": ["Oslo"] * 1_500 + ["Bern"] * 900 + ["Lausanne"] * 600}
        people = Population.from_arrow(rows, TEXT)
        learner = heavy_hitters("town", threshold="1/5", candidates=["Oslo", "Lausanne", "Rom"])
        result = simulate(learner, people, epsilon=4, seed=5, fleet="columns")
        found = result.hypothesis
        assert [item.value for item in found.found] == ["Oslo", "Lausanne"]
        assert found.others.low < 0.3 < found.others.high
        assert [item["value"] for item in result.to_json()["details"]["true"]] == [
            "Oslo",
            "Lausanne",
        ]
        assert "none of the 3 candidates" in str(result)
        again = hypothesis_from_json("heavy-hitters", result.to_json()["hypothesis"])
        assert again == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a" + "é" * 15, "a" + "é" * 15),
        ("a" + "é" * 20, "a" + "é" * 15 + "..."),  # byte 32 is half of a letter
        ("x" * 33, "x" * 32 + "..."),
    ],
)
def test_a_text_that_does_not_fit_is_shown_by_its_first_letters(text: str, shown: str) -> None:
    bits = text_bits(text)
    assert text_of(int(bits[:32], 2), int(bits[32:], 2).to_bytes(32)) == shown
