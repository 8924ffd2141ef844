"""A request from a file and text, carried out."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from askance_aggregator.composition import ACCOUNTANTS, EventCounts
from askance_aggregator.learners import ParameterEntry
from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import rational, read_epsilon
from askance_aggregator.sampling import SystemWords, Words
from askance_client.errors import InvalidParameter
from askance_client.records import Table, schema_from_toml
from askance_papers.curate.data_table import Column, DataTable, Labelled, Numeric, columns_of
from askance_papers.curate.registry import find
from askance_papers.curate.request import COMMON, Curated, CuratorRelease, CuratorRequest, shown
from askance_simulation.populations import DataSource, people_of
from askance_simulation.randomness import Seed, SeededWords

FROM_DATA = "from-data"


def curate(
    learner: str,
    data: DataSource | Path | str,
    epsilon: str | float,
    *,
    label: str | None = None,
    schema: Path | None = None,
    settings: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> CuratorRelease:
    """Run a curator's learner on a CSV or Parquet file.

    Arguments are as of `askance_papers.interface.curate`.

    Raises:
      InvalidParameter, InvalidRecord: something is not as it is stated; nothing was released.
    """
    entry, given = find(learner), dict(settings or {})
    budget = read_epsilon(epsilon)
    known = {one.name: one for one in (*COMMON, *entry.parameters)}
    chosen = _settings(known, given)
    guessed = chosen.get("bounds") == FROM_DATA
    people = DataSource.of(data).read()
    columns = _columns(people, label, schema, chosen)
    clip = chosen["outside"]
    if clip not in ("refuse", "clip"):
        raise InvalidParameter(f"outside: expected refuse or clip, found {clip!r}")
    table = DataTable(people, columns, label, clip == "clip")
    words: Words = SystemWords()
    if seed is not None:
        words = SeededWords(Seed.of(seed) / "curate" / learner)
    curated = entry.curate(CuratorRequest(table, budget, chosen, words))
    _check_spent(curated, budget)
    notes, guarantee = list(curated.notes), _guarantee(curated, float(budget), table.n)
    if seed is not None:
        notes.append("seeded: an experiment, not a release")
        guarantee = (
            "none: a reader with the seed can draw the same; without --seed it would be private"
        )
    if guessed:
        notes.append(
            "bounds and labels were taken from the data: the release is not private, since"
            " they reveal facts about single records that no epsilon covers"
        )
        guarantee = "none: bounds and labels were taken from the data"
    return CuratorRelease(learner, table.n, float(budget), guarantee, curated, tuple(notes))


def _settings(known: Mapping[str, ParameterEntry], given: Mapping[str, str]) -> dict[str, str]:
    for name in given:
        if name not in known:
            raise unknown_name("--set", name, known)
    defaults = {one.name: one.default for one in known.values() if one.default is not None}
    return {**defaults, **given}


def _columns(
    people: Table, label: str | None, schema: Path | None, chosen: Mapping[str, str]
) -> dict[str, Column]:
    """Return columns from the schema, and from settings over it; the label's column included."""
    found: dict[str, Column] = {}
    if schema is not None:
        found = columns_of(schema_from_toml(schema))
    if chosen.get("bounds") == FROM_DATA:
        if schema is not None:
            raise InvalidParameter("bounds: expected --schema or bounds=from-data, found both")
        found = columns_of(people_of(people, Seed.of(0), label=label, keep=people.names).schema)
    else:
        found |= {name: _numeric(name, rest) for name, rest in _pairs(chosen, "bounds")}
    found |= {name: Labelled(tuple(rest.split("|"))) for name, rest in _pairs(chosen, "labels")}
    if not found:
        raise InvalidParameter(
            "bounds: expected --schema FILE.toml, --bounds 'NAME:LOW:HIGH' or --labels 'NAME:A|B',"
            " got none (--bounds from-data takes them from the data, which is not private)"
        )
    return found


def _pairs(chosen: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    found = []
    for part in chosen.get(name, "").split(","):
        column, separator, rest = part.strip().partition(":")
        if part.strip():
            if not separator or not column or not rest:
                raise InvalidParameter(f"{name}: expected NAME:..., got {part.strip()!r:.80}")
            found.append((column.strip(), rest))
    return found


def _numeric(name: str, rest: str) -> Numeric:
    ends = rest.split(":")
    if len(ends) != 2:
        raise InvalidParameter(
            f"bounds of {name!r}: expected NAME:LOW:HIGH, got {f'{name}:{rest}'!r:.80}"
        )
    low, high = (rational(end, f"bounds of {name!r}") for end in ends)
    return Numeric(low, high)


def _check_spent(curated: Curated, budget: Fraction) -> None:
    """Check that a learner has spent no more than its budget; anything else is a defect of ours."""
    totals, delta = EventCounts.of(curated.events), Fraction(curated.delta or 0)
    spent = totals.sum_of_epsilons()
    if spent is None:
        spent = Fraction(ACCOUNTANTS["zcdp"].epsilon(totals, delta))
    if spent > budget:
        raise RuntimeError(
            f"curate: expected a learner to stay within its budget, got {spent} spent of {budget}"
        )


def _guarantee(curated: Curated, epsilon: float, n: int) -> str:
    """Format the guarantee as a sentence."""
    kind = shown(epsilon)
    if curated.delta is not None:
        kind = f"({kind}, {shown(curated.delta)})"
    caveat = f"; {curated.caveat}" if curated.caveat else ""
    return (
        f"{kind}-differentially private towards replacing one of the {n} rows; their number, the"
        f" columns, bounds and labels are public{caveat}"
    )
