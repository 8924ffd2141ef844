"""Tallies are integers and a Merkle root; neither order of arrival nor shards change them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import family_of, subset_selection
from askance_aggregator.studies import SymbolTable, Tally
from askance_aggregator.studies.tallies import (
    CHUNK,
    Places,
    group_leaf_key,
    leaf,
    merkle_root,
)
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import valid
from askance_client.messages import Reason
from askance_client.randomizers.randomizer import MISSING_BYTE

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

KEY = bytes(range(32))
GOLDEN_ROOTS = ["99cebbe0dd4aa5a2", "cb772ec60345a4c6", "db7e3079744ee5c1", "4254a27d082f784a"]
ABSENT = bytes([MISSING_BYTE])


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def salt(chunk: int) -> bytes:
    """The salt of a chunk: HMAC-SHA256 (RFC 2104), written here a second time."""
    inner, outer = (bytes(byte ^ pad for byte in KEY.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    return sha(outer + sha(inner + b"askance leaf salt v1\0" + chunk.to_bytes(8, "big")))


def bits(truths: list[bool]) -> bytes:
    """A bit each, from the highest of a byte down, written here a second time."""
    digits = "".join("01"[truth] for truth in truths)
    whole = digits.ljust(-(-len(digits) // 8) * 8, "0")
    return bytes(int(whole[at : at + 8], 2) for at in range(0, len(whole), 8))


def leaf_of(symbols: list[bytes], chunk: int) -> bytes:
    """The leaf of a chunk in which these were asked, of a table of two symbols."""
    there = [symbol != ABSENT for symbol in symbols]
    ones = [symbol == b"\x01" for symbol in symbols if symbol != ABSENT]
    return chunk_leaf(chunk, bits(there) + bits(ones))


def chunk_leaf(chunk: int, content: bytes) -> bytes:
    return sha(b"\x03" + salt(chunk) + chunk.to_bytes(8, "big") + content)


def entered(world: World, symbols: dict[int, bytes], population: int, order: list[int]) -> Tally:
    """The tally of these ordinals' symbols, one byte each, written in this order."""
    group = world.group(sorted(symbols), population)
    table, places = SymbolTable(group), Places(group.cohort.members)
    for ordinal in order:
        index = places.of(ordinal)
        assert index is not None
        if symbols[ordinal] != ABSENT:
            table.write(index, symbols[ordinal])
    return table.tally()


class TestMerkleRoot:
    def test_of_nothing_is_a_constant(self) -> None:
        assert merkle_root([]) == sha(b"\x02")

    def test_of_one_leaf_is_the_leaf(self) -> None:
        assert merkle_root([b"a" * 32]) == b"a" * 32

    def test_carries_an_odd_leaf_up(self) -> None:
        a, b, c, d, e = (bytes([part]) * 32 for part in range(5))
        left = sha(b"\x01" + a + b)
        assert merkle_root([a, b]) == left
        assert merkle_root([a, b, c]) == sha(b"\x01" + left + c)
        four = sha(b"\x01" + left + sha(b"\x01" + c + d))
        assert merkle_root([a, b, c, d]) == four
        assert merkle_root([a, b, c, d, e]) == sha(b"\x01" + four + e)

    def test_tells_every_number_and_order_of_leaves_apart(self) -> None:
        leaves = [leaf(KEY, 0, b"x"), leaf(KEY, 1, b"x"), leaf(KEY, 2, b"x")]
        orders = [order for n in range(4) for order in permutations(leaves, n)]
        assert len({merkle_root(order) for order in orders}) == len(orders) == 16

    def test_an_inner_node_is_no_leaf(self) -> None:
        """Otherwise two levels of a tree could be passed off as one leaf."""
        a, b = leaf(KEY, 0, b""), leaf(KEY, 1, b"")
        assert chunk_leaf(0, a + b) != merkle_root([a, b])

    def test_is_the_same_in_every_version(self) -> None:
        leaves = [leaf(KEY, chunk, bytes([chunk] * chunk)) for chunk in range(7)]
        assert [merkle_root(leaves[:n]).hex()[:16] for n in (1, 2, 3, 7)] == GOLDEN_ROOTS


class TestSalts:
    """By the root of a tally and all that is public, no guess at an answer can be checked."""

    def test_the_salt_of_a_leaf_follows_from_its_group_and_chunk(self) -> None:
        assert leaf(KEY, 5, b"who", b"what") == chunk_leaf(5, b"whowhat")
        assert len({salt(chunk) for chunk in range(9)}) == 9

    def test_groups_of_a_study_have_unrelated_keys(self) -> None:
        keys = {group_leaf_key(study, bytes([request]) * 32)
                for study in (KEY, bytes(32)) for request in range(5)}  # fmt: skip
        assert {len(key) for key in keys} == {32}
        assert len(keys) == 10

    def test_a_short_key_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="expected 32 bytes, got 16"):
            group_leaf_key(bytes(16), bytes(32))

    def test_a_group_whose_key_is_not_known_is_not_closed(self, world: World) -> None:
        table = SymbolTable(replace(world.group([0], 1), leaf_key=None))
        table.write(0, b"\x01")
        with pytest.raises(InvalidParameter, match="leaf_key: expected the group's, got None"):
            table.tally()

    def test_a_key_is_in_no_text_of_a_group(self, world: World) -> None:
        group = world.group([0], 1)
        assert repr(KEY)[2:-1] not in repr(group)
        assert "leaf_key" not in repr(group)

    def test_a_root_without_salts_can_be_guessed(self) -> None:
        assert Tally((1, 1), 2, 2, bytes(32)).guessable
        assert not Tally((1, 1), 2, 2, bytes(32), salted=True).guessable
        assert not Tally((1, 1), 2, 2, b"").guessable  # drawn from its law: no leaves


class TestSymbolTable:
    def test_the_root_is_over_symbols_in_ordinal_order(self, world: World) -> None:
        tally = entered(world, {2: b"\x01", 5: b"\x00", 7: ABSENT}, 10, [7, 5, 2])
        assert tally.root == chunk_leaf(0, bytes([0b110_00000, 0b10_000000]))
        expected = Tally(counts=(1, 1), answered=2, asked=3, root=tally.root, salted=True)
        assert tally == expected

    def test_who_stays_away_is_told_apart(self, world: World) -> None:
        everybody = dict.fromkeys(range(4), b"\x01")
        roots = {
            entered(world, everybody | {absent: ABSENT}, 4, list(range(4))).root
            for absent in range(4)
        }
        assert len(roots) == 4
        assert not valid(world.group([0], 4).randomizer, ABSENT)

    def test_every_order_of_arrival_gives_the_same_tally(self, world: World) -> None:
        symbols = {1: b"\x01", 3: b"\x00", 4: ABSENT, 8: b"\x01"}
        tallies = [entered(world, symbols, 9, list(order)) for order in permutations(symbols)]
        assert all(tally == tallies[0] for tally in tallies)

    @settings(max_examples=60, deadline=None)
    @given(
        st.dictionaries(st.integers(0, 3 * CHUNK - 1), st.sampled_from([b"\0", b"\1", ABSENT])),
        st.data(),
    )
    def test_order_changes_nothing_and_symbols_change_the_root(
        self, world: World, symbols: dict[int, bytes], data: st.DataObject
    ) -> None:
        order = data.draw(st.permutations(sorted(symbols)))
        tally = entered(world, symbols, 3 * CHUNK, order)
        assert tally == entered(world, symbols, 3 * CHUNK, sorted(symbols))
        present = [symbol for symbol in symbols.values() if symbol != ABSENT]
        assert tally.counts == (present.count(b"\0"), present.count(b"\1"))
        assert (tally.answered, tally.asked) == (len(present), len(symbols))
        chunks = [
            leaf_of([symbols[o] for o in sorted(symbols) if o // CHUNK == chunk], chunk)
            for chunk in range(3)
        ]
        assert tally.root == merkle_root(chunks)
        for ordinal, symbol in symbols.items():
            other = b"\0" if symbol == b"\1" else b"\1"
            changed = entered(world, symbols | {ordinal: other}, 3 * CHUNK, order)
            assert changed.root != tally.root

    @pytest.mark.parametrize(
        ("population", "chunks"),
        [(1, 1), (CHUNK - 1, 1), (CHUNK, 1), (CHUNK + 1, 2), (2 * CHUNK, 2)],
    )
    def test_a_leaf_holds_2_to_the_16_ordinals(
        self, world: World, population: int, chunks: int
    ) -> None:
        last = population - 1
        tally = entered(world, {last: b"\x01"}, population, [last])
        leaves = [
            leaf_of([b"\x01"] if chunk == chunks - 1 else [], chunk) for chunk in range(chunks)
        ]
        assert tally.root == merkle_root(leaves)

    def test_neighbours_on_both_sides_of_a_boundary_are_in_different_leaves(
        self, world: World
    ) -> None:
        symbols = {CHUNK - 1: b"\x00", CHUNK: b"\x01"}
        tally = entered(world, symbols, 2 * CHUNK, [CHUNK, CHUNK - 1])
        assert tally.root == merkle_root([leaf_of([b"\x00"], 0), leaf_of([b"\x01"], 1)])

    def test_wide_symbols_are_packed_whole(self, world: World) -> None:
        randomizer = subset_selection(20, world.budget // 8)
        first = next(iter(family_of(randomizer).alphabet()))
        table = SymbolTable(world.group([0, 1], 2, randomizer=randomizer))
        table.write(0, first)
        tally = table.tally()
        assert tally.root == chunk_leaf(0, bytes([0b10_000000]) + first)
        assert (tally.answered, sum(tally.counts)) == (1, randomizer.size)

    def test_refusals_are_counted_by_reason_and_are_no_answers(self, world: World) -> None:
        table = SymbolTable(world.group(range(4), 4))
        table.refuse(0, Reason.OVER_LIFE_BUDGET)
        table.write(1, b"\x01")
        table.refuse(2, Reason.FIELD_NOT_ALLOWED)
        table.refuse(3, Reason.OVER_LIFE_BUDGET)
        tally = table.tally()
        assert tally.refusals == ((Reason.FIELD_NOT_ALLOWED, 1), (Reason.OVER_LIFE_BUDGET, 2))
        assert (tally.counts, tally.answered, tally.asked) == ((0, 1), 1, 4)
        assert tally.root == chunk_leaf(0, bytes([0b0100_0000, 0b1_0000000]))

    def test_it_knows_its_members_and_who_is_still_out(self, world: World) -> None:
        group = world.group([2, 4, 9], 10)
        table, places = SymbolTable(group), Places(group.cohort.members)
        assert [places.of(ordinal) for ordinal in range(10)] == [
            None, None, 0, None, 1, None, None, None, None, 2,
        ]  # fmt: skip
        assert table.open == 3
        table.write(1, b"\x00")
        table.refuse(2, Reason.EXPIRED)
        assert [table.settled(index) for index in range(3)] == [False, True, True]
        assert table.open == 1
