"""Defects planted in the verifier, one at a time: the kit finds each of them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import ceil, floor, log
from typing import Any

import pytest

from tests.conformance import run
from tests.conformance.verifier import (
    cell_families,
    device,
    inference,
    kinds,
    losses,
    queries,
    schemas,
    set_families,
    studies,
    vector_families,
    wire,
)
from tests.conformance.verifier.families import M, floyd, round_to

Patch = pytest.MonkeyPatch
RESPOND = cell_families.respond
DEFECTS: dict[str, tuple[str, Callable[[Patch], None]]] = {}
"""Name of a defect: the kind of case that finds it, and the function that plants it."""


def defect(kind: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a function that plants a defect."""

    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        DEFECTS[plant.__name__] = (kind, plant)
        return plant

    return register


@cache
def cases_of(kind: str) -> list[run.Json]:
    return [case for case in run.load() if case["kind"] == kind]


def wrong_answers(kind: str) -> int:
    """Count wrong answers, up to the first."""
    for case in cases_of(kind):
        if kinds.answer(kind, case["input"]) != case["expected"]:
            return 1
    return 0


@defect("record")
def a_record_is_rounded_half_up(patch: Patch) -> None:
    patch.setattr(schemas, "round", lambda x: floor(x + Fraction(1, 2)), raising=False)


@defect("record")
def a_number_out_of_range_is_missing(patch: Patch) -> None:
    read = schemas.Field.read

    def strict(field: schemas.Field, value: Any) -> Any:
        number = None if field.labels or field.kind == "bits" else schemas.exact(value)
        inside = number is None or field.low <= number * 2**field.frac <= field.high
        return read(field, value) if inside else None

    patch.setattr(schemas.Field, "read", strict)


@defect("evaluate")
def a_missing_value_is_zero(patch: Patch) -> None:
    read = schemas.Field.read

    def filled(field: schemas.Field, value: Any) -> Any:
        found = read(field, value)
        return found if found is not None else [0] * field.width if field.width else 0

    patch.setattr(schemas.Field, "read", filled)


@defect("evaluate")
def a_vector_is_missing_as_a_whole(patch: Patch) -> None:
    evaluate = queries.Query.evaluate

    def whole(query: queries.Query, record: Any, schema: schemas.Schema) -> list[int]:
        if any(record[name] is None for name in query.fields):
            return [query.default] * query.components
        return evaluate(query, record, schema)

    patch.setattr(queries.Query, "evaluate", whole)


@defect("evaluate")
def less_equal_is_less(patch: Patch) -> None:
    patch.setitem(queries._OPERATORS, inference.LESS_EQUAL, lambda a, b: a < b)


@defect("evaluate")
def rounding_is_toward_zero(patch: Patch) -> None:
    def toward_zero(node: inference.Node, a: Any, k: Any) -> Fraction:
        return Fraction(int(a[0] * 2**node.grid), 2**node.grid)

    patch.setitem(queries._SPECIAL, inference.ROUND, toward_zero)


@defect("evaluate")
def an_edge_belongs_to_the_bucket_below(patch: Patch) -> None:
    patch.setitem(
        queries._SPECIAL, inference.BUCKETIZE, lambda node, a, k: sum(edge < a[0] for edge in k)
    )


@defect("evaluate")
def the_last_that_holds_is_first(patch: Patch) -> None:
    def last(node: inference.Node, a: Any, k: Any) -> int:
        return max((i for i, holds in enumerate(a) if holds), default=len(a))

    patch.setitem(queries._SPECIAL, inference.FIRST, last)


@defect("evaluate")
def the_sigmoid_takes_the_nearest_point(patch: Patch) -> None:
    patch.setitem(
        queries._OPERATORS,
        inference.SIGMOID,
        lambda a: Fraction(inference.sigmoid_entry(round(a * 256), 8), 1 << 16),
    )


@defect("query")
def nodes_may_have_any_order(patch: Patch) -> None:
    patch.setattr(queries, "_is_canonical", lambda nodes: True)


@defect("query")
def a_value_may_reach_sixty_three_bits(patch: Patch) -> None:
    patch.setattr(inference, "LIMIT", 1 << 63)


@defect("query")
def a_digest_leaves_the_schema_out(patch: Patch) -> None:
    patch.setattr(
        queries.Query, "digest", lambda query, schema: hashlib.sha256(query.canonical).digest()
    )


@defect("query")
def unknown_fields_are_skipped(patch: Patch) -> None:
    records = wire._records
    patch.setattr(wire, "_records", lambda data: [r for r in records(data) if r[0] < 100])


@defect("query")
def numbers_keep_their_high_bits(patch: Patch) -> None:
    patch.setitem(wire._VARINTS, "int32", lambda value: value)


@defect("loss")
def a_loss_is_a_float(patch: Patch) -> None:
    patch.setattr(kinds, "charge", lambda a, b: max(ceil(1e9 * (log(max(a, 1)) - log(b))), 0))


@defect("loss")
def a_loss_is_rounded_down(patch: Patch) -> None:
    patch.setattr(kinds, "charge", lambda a, b: max(losses.charge(a, b) - 1, 0))


@defect("randomizer")
def the_loss_of_sets_has_no_bias(patch: Patch) -> None:
    def even(family: set_families.Subset) -> tuple[int, int]:
        inside = family.threshold * (family.cells - family.size)
        outside = (M - family.threshold) * family.size
        return max(inside, outside), min(inside, outside)

    patch.setattr(set_families.Subset, "ratio", even)


@defect("draw")
def equally_long_sets_are_written_as_indices(patch: Patch) -> None:
    def index_bytes(family: set_families.Sets) -> int:
        each = (family.items.bit_length() + 7) // 8
        return each if each * family.size <= (family.items + 7) // 8 else 0

    patch.setattr(set_families.Sets, "index_bytes", property(index_bytes))


@defect("draw")
def a_coin_at_the_edge_draws_the_symbol_below(patch: Patch) -> None:
    draw = cell_families.Table.draw
    patch.setattr(
        cell_families.Table, "draw", lambda t, level, coins: draw(t, level, [max(coins[0] - 1, 0)])
    )


@defect("draw")
def other_cells_start_one_late(patch: Patch) -> None:
    patch.setattr(
        cell_families,
        "respond",
        lambda own, value, other, coin: RESPOND(own, value, other, max(coin - 1, 0)),
    )


@defect("draw")
def products_wrap_around_at_sixty_four_bits(patch: Patch) -> None:
    patch.setattr(
        set_families,
        "floyd",
        lambda items, size, coins: floyd(items, size, [0 for _ in coins]),
    )


@defect("draw")
def coins_are_signed(patch: Patch) -> None:
    draw = cell_families.Hadamard.draw

    def signed(family: cell_families.Hadamard, level: int, coins: Any) -> bytes:
        return draw(family, level, [coins[0], coins[1] - M if coins[1] >= M // 2 else coins[1]])

    patch.setattr(cell_families.Hadamard, "draw", signed)


@defect("draw")
def the_first_coins_of_a_set_are_read(patch: Patch) -> None:
    favoured = set_families.favoured

    def from_the_front(*args: Any) -> set[int]:
        cells, size, threshold, own, coins = args
        return favoured(cells, size, threshold, own, [coins[0], *coins[2:], coins[1]])

    patch.setattr(set_families, "favoured", from_the_front)


@defect("draw")
def ties_of_codes_go_to_the_last(patch: Patch) -> None:
    patch.setattr(
        vector_families,
        "sorted",
        lambda indices, key: sorted(indices, key=lambda i: (key(i)[0], -i)),
        raising=False,
    )


@defect("draw")
def many_signs_are_flipped_and_not_kept(patch: Patch) -> None:
    patch.setattr(
        vector_families,
        "floyd",
        lambda items, size, coins: {items - 1 - item for item in floyd(items, size, coins)},
    )


@defect("alphabet")
def a_value_may_have_both_signs(patch: Patch) -> None:
    patch.setattr(set_families.SignedSubset, "valid", set_families.Sets.valid)


@defect("alphabet")
def unused_bits_may_be_set(patch: Patch) -> None:
    members = set_families.Sets.members
    patch.setattr(
        set_families.Sets,
        "members",
        lambda family, report: [i for i in members(family, report) if i < family.items],
    )


@defect("level")
def a_number_at_its_threshold_is_rounded_up(patch: Patch) -> None:
    patch.setattr(kinds, "round_to", lambda v, lo, hi, n, coin: round_to(v, lo, hi, n, coin - 1))


@defect("signature")
def a_signature_is_not_checked(patch: Patch) -> None:
    patch.setattr(studies, "signature_holds", lambda study, key, signature: len(signature) == 64)


@defect("study")
def fields_of_a_study_need_no_order(patch: Patch) -> None:
    patch.setattr(studies, "sorted", list, raising=False)


@defect("schema")
def texts_are_preceded_by_their_characters(patch: Patch) -> None:
    def text(value: str) -> bytes:
        return struct.pack(">I", len(value)) + value.encode()

    patch.setattr(schemas, "text", text)


@defect("report")
def a_reason_may_be_unknown(patch: Patch) -> None:
    patch.setattr(studies, "REASONS", (*studies.REASONS, *["NEW"] * 1000))


@defect("response")
def a_message_has_any_length(patch: Patch) -> None:
    patch.setattr(studies, "max", lambda lengths: 0, raising=False)


@defect("ledger")
def a_day_is_the_last_twenty_four_hours(patch: Patch) -> None:
    patch.setattr(
        device.Ledger,
        "day",
        lambda ledger, day: sum(n for _, at_s, n in ledger.charges if at_s >= (day - 1) * 86_400),
    )


@defect("ledger")
def a_question_of_a_tiny_loss_is_answered(patch: Patch) -> None:
    patch.setattr(device, "LEAST_LOSS", 1)


@defect("ledger")
def a_question_of_the_least_loss_is_refused(patch: Patch) -> None:
    patch.setattr(device, "LEAST_LOSS", 1_000_001)


@defect("ledger")
def answers_to_a_study_have_no_limit(patch: Patch) -> None:
    patch.setattr(device.Ledger, "answers", lambda ledger, digest: 0)


@defect("ledger")
def answers_to_all_studies_count_together(patch: Patch) -> None:
    patch.setattr(device.Ledger, "answers", lambda ledger, digest: len(ledger.charges))


@defect("ledger")
def a_day_starts_an_hour_late(patch: Patch) -> None:
    day = device.Ledger.day
    patch.setattr(
        device.Ledger,
        "day",
        lambda ledger, number: day(
            device.Ledger(charges=[(s, at_s - 3600, n) for s, at_s, n in ledger.charges]), number
        ),
    )


@defect("ledger")
def a_second_answer_is_free(patch: Patch) -> None:
    patch.setattr(device.Ledger, "life", lambda ledger: sum(n for _, _, n in ledger.charges[:1]))


@defect("ledger")
def a_reused_answer_is_charged(patch: Patch) -> None:
    charge = device.Device._charge

    def forgetful(member: device.Device, *args: Any) -> bytes:
        data = charge(member, *args)
        member.ledger.symbols.clear()
        return data

    patch.setattr(device.Device, "_charge", forgetful)


@defect("ledger")
def a_restart_forgets_charges(patch: Patch) -> None:
    restart = device.Device.restart

    def afresh(member: device.Device) -> None:
        member.ledger = device.Ledger()
        restart(member)

    patch.setattr(device.Device, "restart", afresh)


@defect("ledger")
def a_restart_keeps_studies(patch: Patch) -> None:
    restart = device.Device.restart

    def kept(member: device.Device) -> None:
        studies_before = getattr(member, "studies", {})
        restart(member)
        member.studies = studies_before

    patch.setattr(device.Device, "restart", kept)


@defect("ledger")
def a_budget_may_not_be_spent_to_the_last(patch: Patch) -> None:
    life = device.Ledger.life
    patch.setattr(device.Ledger, "life", lambda ledger: life(ledger) + 1)


@defect("ledger")
def a_study_is_answered_at_its_expiry(patch: Patch) -> None:
    objection = device.Device._objection

    def late(member: device.Device, request: Any, time_s: int) -> str:
        reason = objection(member, request, time_s)
        return "" if reason == "EXPIRED" and not objection(member, request, time_s - 1) else reason

    patch.setattr(device.Device, "_objection", late)


@defect("ledger")
def a_clock_a_minute_and_a_second_behind_stands_still(patch: Patch) -> None:
    patch.setattr(device, "SLACK_S", 61)


@defect("ledger")
def one_refusal_more_leaves(patch: Patch) -> None:
    patch.setattr(device, "MAX_REFUSALS", 257)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, plant = DEFECTS[name]
    plant(monkeypatch)
    kinds._schema_from.cache_clear()
    assert wrong_answers(kind) == 1


def test_there_are_defects_of_every_kind() -> None:
    """A dozen kinds of case have one at least."""
    assert len({kind for kind, _ in DEFECTS.values()}) >= 12
    assert len(DEFECTS) >= 30
