"""A message has one encoding: near misses are refused, values at a limit are accepted."""

from __future__ import annotations

import pytest

from askance_aggregator.encoding import encode_randomizer, encode_study
from askance_client.codec import decode_query, decode_randomizer, decode_report, study_of
from askance_client.codec.studies import decode_study
from askance_client.errors import InvalidParameter, InvalidQuery, RemoteProtocolError
from askance_client.messages import Conduct, StudyTerms
from askance_client.queries import Bit, Schema
from askance_client.randomizers import Channel
from askance_protos.v1 import exchange_pb2, query_pb2, randomizer_pb2, study_pb2

HALF = 1 << 63


def message() -> study_pb2.Study:
    terms = StudyTerms(
        nonce=bytes(16),
        learner="learner",
        learner_version=1,
        parameters=(),
        schema=Schema("s", 1, a=Bit(), b=Bit()),
        budget_nano_nats=1,
        expires_unix_s=1,
        purpose="purpose",
        fields=(),
        conduct=Conduct(least_answers=1),
    )
    return study_pb2.Study.FromString(encode_study(terms))


@pytest.mark.parametrize("field", ["beta", "confidence"])
@pytest.mark.parametrize("text", ["2/4", "10/5", "01/2", "1/02", "+1/2", "1/2 ", "1", "0.5", ""])
def test_a_fraction_has_one_writing(field: str, text: str) -> None:
    study = message()
    setattr(study.conduct, field, "1/2")
    assert getattr(decode_study(study.SerializeToString()).conduct, field) * 2 == 1
    setattr(study.conduct, field, text)
    with pytest.raises(RemoteProtocolError, match=f"{field} as a fraction in lowest terms"):
        decode_study(study.SerializeToString())


@pytest.mark.parametrize("names", ["aab", "abb", "ba", "aa"])
def test_names_are_sorted_and_none_comes_twice(names: str) -> None:
    for kind in ("parameters", "fields"):
        study = message()
        if kind == "fields":
            study.fields.extend(names)
        else:
            study.parameters.extend(study_pb2.Parameter(name=name, value="1") for name in names)
        with pytest.raises(RemoteProtocolError, match=f"{kind} sorted by name, none twice"):
            decode_study(study.SerializeToString())


def test_a_table_of_720_levels_is_read_and_one_more_is_refused_before_it_is_laid_out() -> None:
    channel = Channel(((HALF, HALF),) * 720)
    assert decode_randomizer(encode_randomizer(channel)) == channel
    for levels, symbols in ((721, 0), (0, 721), ((1 << 32) - 1,) * 2):
        table = randomizer_pb2.Table(levels=levels, symbols=symbols)
        with pytest.raises(InvalidParameter, match=r"of a table: expected 2\.\.720, got"):
            decode_randomizer(randomizer_pb2.Randomizer(table=table))


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("symbols", [2, 3])
def test_a_table_has_an_entry_for_each_of_its_levels_and_symbols(levels: int, symbols: int) -> None:
    rest = (1 << 64) - (symbols - 1) * (HALF >> 1)
    row = (*[HALF >> 1] * (symbols - 1), rest)
    message = encode_randomizer(Channel((row,) * levels))
    assert decode_randomizer(message) == Channel((row,) * levels)
    for count in range(levels * symbols + 9):
        if count != levels * symbols:
            entries = [HALF] * count
            table = randomizer_pb2.Table(levels=levels, symbols=symbols, entries=entries)
            with pytest.raises(RemoteProtocolError, match=f"{levels} x {symbols} entries, found"):
                decode_randomizer(randomizer_pb2.Randomizer(table=table))


@pytest.mark.parametrize("nodes", [4095, 4096, 4097, 4098])
def test_a_query_of_too_many_nodes_is_refused_before_the_first_is_read(nodes: int) -> None:
    query = query_pb2.Query(kind=query_pb2.QUERY_KIND_PREDICATE, nodes=[query_pb2.Node()] * nodes)
    message = (
        "expected a known operation at node 0"
        if nodes <= 4096
        else f"query: expected 1..4096 nodes, found {nodes}"
    )
    with pytest.raises(InvalidQuery, match=message):
        decode_query(query, Schema("s", 1, a=Bit()))


@pytest.mark.parametrize("expires", [0, -1, -2, -(1 << 63)])
def test_a_study_has_an_expiry_after_1970(expires: int) -> None:
    study = message()
    assert decode_study(study.SerializeToString()).expires_unix_s == 1
    study.expires_unix_s = expires
    with pytest.raises(RemoteProtocolError, match="expected an expiry, found none"):
        decode_study(study.SerializeToString())


def test_runs_of_columns_and_rows_of_entries_are_the_same_table() -> None:
    by_rows = randomizer_pb2.Table(
        levels=2, symbols=3, entries=[HALF, HALF - 1, 1, HALF, 1, HALF - 1]
    )
    by_runs = randomizer_pb2.Table(
        levels=2, symbols=3, entries=[HALF, HALF - 1, 1, HALF - 1], repeats=[2, 1, 2, 1]
    )
    one, two = (
        decode_randomizer(randomizer_pb2.Randomizer(table=table)) for table in (by_rows, by_runs)
    )
    assert one == two == Channel(((HALF, HALF - 1, 1), (HALF, 1, HALF - 1)))


def test_a_table_of_windows_takes_bytes_by_its_runs_and_not_by_its_entries() -> None:
    """4,624 entries would take 40 kB row by row; a column has 2 or 3 runs."""
    side = 17
    table = tuple(
        tuple(15 << 56 if symbol // 16 == level else 1 << 52 for symbol in range(16 * side))
        for level in range(side)
    )
    message = encode_randomizer(Channel(table))
    assert decode_randomizer(message) == Channel(table)
    assert message.ByteSize() < 12 * (3 * 16 * side)


@pytest.mark.parametrize("size", [0, 30, 31, 33, 34])
def test_a_digest_has_32_bytes(size: int) -> None:
    request = exchange_pb2.Request(study_digest=bytes(size)).SerializeToString()
    with pytest.raises(RemoteProtocolError, match=f"study digest of 32 bytes, found {size}"):
        study_of(request)
    report = exchange_pb2.Report(request_digest=bytes(size), symbol=b"y").SerializeToString()
    with pytest.raises(RemoteProtocolError, match=f"request digest of 32 bytes, found {size}"):
        decode_report(report)
