"""Missing answers: an aggregator does not see them, but a simulation's reader must know of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from askance_aggregator.encoding import query_from_bytes
from askance_aggregator.learners.encodings import has_missing_cell
from askance_aggregator.learners.missing import leaves_out_missing
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.transcript import Asked
from askance_client.queries import Query, QueryKind
from askance_client.queries.categories import cell_names
from askance_simulation.populations import Population

_MOST = 5  # notes; a learner may have asked thousands of questions


def absences(
    transcript: Transcript,
    population: Population,
    hypothesis: object,
    whole: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """List, per question, the number of users without a value, and how they count.

    Args:
      transcript: of the study.
      population: its users.
      hypothesis: its conclusion, which states whether users without a value are left out.
      whole: fields that all users are known to have.
    """
    notes = []
    left_out = leaves_out_missing(hypothesis)
    for query in _asked(transcript, population):
        absent = 0 if query.fields_used <= whole else _absent(query, population)
        if absent:
            fields = " or ".join(sorted(query.fields_used))
            notes.append(
                f"{absent:,} of {population.size:,} users have no valid value of {fields}"
                f" and {'are left out of its estimate' if left_out else _counted(query)}"
            )
        if len(notes) == _MOST:
            break
    return tuple(notes)


def _asked(transcript: Transcript, population: Population) -> Iterator[Query]:
    """Generate every question once, by its fields."""
    seen: set[frozenset[str]] = set()
    for event in transcript.recorded:
        if not isinstance(event, Asked):
            continue
        for data in event.questions:
            query = query_from_bytes(data, population.schema)
            if query.fields_used not in seen:
                seen.add(query.fields_used)
                yield query


def _absent(query: Query, population: Population) -> int:
    if population.types is not None:
        return population.types.absent(query.fields_used)
    absent = 0
    for start, stop in population.stretches():
        columns = population.columns(start, stop)
        present = np.ones(len(columns), np.bool_)
        for name in query.fields_used:
            present &= columns.present[name]
        absent += int(np.count_nonzero(~present))
    return absent


def _counted(query: Query) -> str:
    """Describe how a user without a value counts, if the hypothesis does not leave it out."""
    if has_missing_cell(query):
        return "are left out of its shares"
    return f"count as {_default(query)}"


def _default(query: Query) -> str:
    """Return the public default of a question, in its own terms."""
    match query.kind:
        case QueryKind.CATEGORY:
            name = cell_names(query)[query.default]
            return f"cell {name}" if name.isdecimal() else repr(name)  # a number names no value
        case QueryKind.PREDICATE:
            return "'yes'" if query.default else "'no'"
        case QueryKind.REAL:
            return _number(query)
        case QueryKind.VECTOR:
            return f"{_number(query)} in every component that depends on it"
        case QueryKind.SIGNED:
            return "the question's public default"


def _number(query: Query) -> str:
    """Return a number's default beside the range of answers, which may be scaled fields'."""
    unit = 1 << query.frac
    default, low, high = (value / unit for value in (query.default, query.low, query.high))
    middle = ", the middle" if 2 * query.default == query.low + query.high else ""
    return f"{default:g}{middle} (its answers range from {low:g} to {high:g})"
