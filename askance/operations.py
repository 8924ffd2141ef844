"""The functions of the public interface, which the command line calls.

gRPC, plotting and Parquet are imported when they are first used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from askance_aggregator import learners
from askance_aggregator.extras import install_text
from askance_aggregator.families import make
from askance_aggregator.learners import Learner
from askance_aggregator.names import named_schema_from_toml
from askance_aggregator.numbers import (
    Rational,
    named_count,
    plain_arguments,
    read_nano_nats,
    read_probability,
)
from askance_aggregator.planning import RoundPlan, StudyPlan
from askance_aggregator.studies.least_epsilon import plan_least_epsilon
from askance_aggregator.studies.outer_plan import plan_outer_epsilon
from askance_aggregator.studies.study import Epsilon, Study
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema
from askance_client.randomizers import Randomizer
from askance_simulation import populations
from askance_simulation.experiments import Named, Trial, design, named, run_trial
from askance_simulation.randomness import Seed

if TYPE_CHECKING:
    from askance_aggregator.amplification import Ends
    from askance_aggregator.analyst import Aggregator, AnalystKey, StudyDefinition, Verification
    from askance_simulation.audit import Audit, Refused

__all__ = [
    "amplification",
    "audit",
    "catalogue",
    "check_output",
    "connect",
    "demo",
    "new_analyst_key",
    "plan",
    "read",
    "study_from_toml",
    "verify_export",
]

DEFAULT_DELTA = "1e-6"

_WRITERS = {  # by suffix: the package that writes it, and the extra that has the package
    ".parquet": ("pyarrow", "frames"),
    ".png": ("matplotlib", "plots"),
    ".svg": ("matplotlib", "plots"),
}


def read(
    source: Any,
    schema: Schema | None = None,
    *,
    label: str | None = None,
    users: int | None = None,
    seed: int = 0,
    keep: Collection[str] = (),
    categories: Collection[str] = (),
    held_out: Rational = 0,
    **settings: Any,
) -> populations.Population:
    """Read a file, a data set or a frame as a population, one user per row.

    Privacy: a schema that is inferred states facts about the users in the data, which a result
        notes. A real study has a schema that is known before any user is asked.

    Args:
        source: path of a .parquet or CSV file; the name of a data set that ships with the package
            ("census"); or a frame of pandas, pyarrow, polars or DuckDB, a series, a dict of columns
            or an array of NumPy.
        schema: of the records; None: inferred. Read `.schema` of the result to see and edit it.
        label: field to be predicted; None: the only label.
        users: how many; None: one per row that is not held out.
        seed: of a sample of the rows, and of those that are held out.
        keep: names of columns that are not left out as identifiers.
        categories: names of columns whose values are labels, even if they are numbers.
        held_out: part of the rows that belong to no user, in [0, 1): a model's error is measured on
            them, beside that of a constant guess.
        settings: further ones of `Population.from_csv`, `from_parquet` or `from_arrow`.

    Raises:
        InvalidRecord: the data is not of that form; the message says what helps.
        InvalidParameter: an argument, or a package that is not installed.

    Example:
        >>> people = ask.read("census", users=500)
        >>> people.size, len(people.schema.fields)
        (500, 7)
        >>> ask.read("census", people.schema, users=100).size
        100
    """
    make: Callable[..., populations.Population]
    if not isinstance(source, str | Path):
        make = populations.Population.from_arrow
    elif Path(source).suffix.lower() == ".parquet":
        make = populations.Population.from_parquet
    else:
        make = populations.Population.from_csv
    return make(
        source,
        schema,
        label=label,
        users=users,
        seed=seed,
        keep=keep,
        categories=categories,
        held_out=held_out,
        **settings,
    )


@plain_arguments
def amplification(
    randomizer: str | Randomizer,
    *,
    answers: int,
    delta: Rational = DEFAULT_DELTA,
    cells: int | None = None,
    epsilon: Epsilon | None = None,
) -> Ends:
    """Bound the epsilon that a reader of one tally faces, from both sides.

    Privacy: (epsilon, delta), replace-one in the record, given who answered and how many, towards a
        reader who sees the tally and no report (docs/math/two_guarantees.md). The upper end holds
        for every population and the lower one is attained by one; both are rounded outward. Where
        no bound is proved, they are the loss of one report and 0.

    Args:
        randomizer: a family's name, as `askance amplification` takes it, or the randomizer itself.
        answers: honest reports in the tally, the one that the reader looks for included; 1 or more.
        delta: in (0, 1).
        cells: of the family's input; only with a name, and 2 by default.
        epsilon: of one report, in nats; only with a name, which needs it.

    Raises:
        InvalidParameter: an argument out of range, a name without an epsilon, or cells or an
            epsilon beside a randomizer itself.

    Example:
        >>> ends = ask.amplification("randomized-response", epsilon=1, answers=10_000)
        >>> 0.98 < ends.lower / ends.upper <= 1, ends.upper < 0.04
        (True, True)
    """
    from askance_aggregator.amplification import epsilon_ends

    return epsilon_ends(
        _made(randomizer, cells, epsilon),
        named_count(answers, "answers"),
        read_probability(delta, "delta"),
    )


def _made(randomizer: str | Randomizer, cells: int | None, epsilon: Epsilon | None) -> Randomizer:
    """Return a randomizer, or the one that a name, a number of cells and an epsilon mean."""
    import_module("askance_aggregator.table_design")  # registers the designed table

    if isinstance(randomizer, str):
        if epsilon is None:
            raise InvalidParameter("epsilon: expected a number of nats with a name, got none")
        count = 2 if cells is None else named_count(cells, "cells")
        return make(randomizer, count, read_nano_nats(epsilon))
    for name, value in (("epsilon", epsilon), ("cells", cells)):
        if value is not None:
            raise InvalidParameter(
                f"{name}: expected none with a randomizer itself, got {value_text(value)}"
            )
    return randomizer


@plain_arguments
def audit(
    epsilons: Iterable[Epsilon] = (), *, reports: int | None = None
) -> Iterator[Audit | Refused]:
    """Audit real devices: search their reports' bytes for a privacy loss above the charge.

    Ledgers of devices that are restarted are files in a temporary folder; coins are the operating
    system's. An absence of alarms is no proof: `verify` is.

    Args:
        epsilons: nats; none: 1 and 4.
        reports: of each record asked, 2 or more; None: enough to be done within a minute.

    Raises:
        InvalidParameter: an epsilon that is none, or too few reports.
    """
    from askance_simulation.audit import audit_as_built

    return audit_as_built(epsilons, reports)


@plain_arguments
def demo(
    *,
    devices: int = 10_000,
    d: int = 8,
    epsilon: Epsilon = "2.0",
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
) -> Trial:
    """Run the two-round MASKED-PARITY study on `devices` devices over real gRPC on this machine.

    Privacy: pure eps-LDP for every device, by its own ledger.

    Args:
        devices: number of devices.
        d: bits of the mask, 2..1024.
        epsilon: each user's budget, nats.
        seed: of the population, the coins and the cohorts.
        progress: called with the number of new reports.
        watch: called with each round as it opens.

    Raises:
        PlanRefused: too few devices for this d and epsilon; no user was asked.
    """
    root = Seed.of(seed) / "trial" / 0
    population = populations.masked_parity(devices, root / "population", d)
    study = Study(learners.masked_parity(population.schema), epsilon=epsilon)
    return run_trial(study, population, fleet="grpc", seed=root, progress=progress, watch=watch)


@plain_arguments
def plan(
    learner: str | Learner[Any],
    *,
    epsilon: Epsilon | None = None,
    beta: Epsilon = "0.01",
    users: int | None = None,
    settings: Mapping[str, str] | None = None,
    population: str | None = None,
    data: populations.DataSource | Path | str | None = None,
    schema: Path | Schema | None = None,
    label: str | None = None,
    categories: Collection[str] = (),
    randomizer: str = "best",
    waves: int = 1,
    least_answers: int = 0,
    outer_epsilon: Epsilon | None = None,
    outer_delta: Rational | None = None,
    local_at_most: Epsilon = 4,
    curve: bool = False,
    **parameters: Any,
) -> StudyPlan:
    """Compute the number of users that a learner needs, or the epsilon that a study needs.

    Args:
        learner: its name, or the learner itself, whose columns are of `schema`.
        epsilon: each user's whole budget, in nats; None: the least of a grid from which on `users`
            are enough for the learner's tolerances (`plan_least_epsilon`), or the one that keeps
            `outer_epsilon` (`plan_outer_epsilon`).
        beta: the chance that an answer is off by its tolerance or more.
        users: how many there are; None: as many as are needed.
        settings: of a learner by its name, as on the command line.
        population: a generated one, by its name. Without one and without data, the plan of a name
            is for the learner's own schema.
        data: a population's file or data set.
        schema: of the records: itself, or its file.
        categories: the columns of `data` whose values are labels, even if they are numbers.
        label: field to be predicted.
        randomizer: which one is used, as `askance plan --randomizer` names it.
        waves: in how many parts the users of a round are asked.
        least_answers: in every group of a round; with fewer a study ends without a result.
        outer_epsilon: in place of `epsilon`: towards readers of tallies, in nats.
        outer_delta: its delta, in (0, 1); None: that of a result for the plan's users.
        local_at_most: the greatest epsilon that `outer_epsilon` may lead to, at most 4 nats.
        curve: without an epsilon: whether the plan's curve has the whole grid of epsilons.
        parameters: settings of a learner by its name as arguments, `tau=.05`.

    Raises:
        InvalidParameter: no such name or setting, neither epsilon nor users, or curve and epsilon.

    Example:
        >>> ask.plan("mean", users=20_000, tau=0.05, missing="default").epsilon
        0.8
        >>> schema = ask.Schema("people", income=ask.Integer(0, 100), sex=ask.Bit())
        >>> learner = ask.learners.difference("income", by="sex", tau=10)
        >>> ask.plan(learner, epsilon=2, schema=schema).feasible
        True
        >>> ask.plan("frequency", epsilon=1, cells=16, tau=0.05).users_needed
        15440
        >>> ask.plan("frequency", epsilon=1, users=100, cells=16, tau=0.05).feasible
        False
    """
    settings = _with_texts(settings, parameters)
    conduct: dict[str, Any] = {"beta": beta, "waves": waves, "least_answers": least_answers}
    wanted = _wanted(outer_epsilon, outer_delta, local_at_most)
    planned = partial(_planned, epsilon=epsilon, curve=curve, wanted=wanted)
    people: dict[str, Any] = {"population": population, "data": data, "label": label}
    shape = None
    if isinstance(learner, Learner):
        _check_none(settings=settings, **people)
        shape = named_schema_from_toml(schema) if isinstance(schema, Path) else schema
    else:
        file = _file_of(schema)
        if file is not None or categories or any(one is not None for one in people.values()):
            chosen = partial(
                named,
                learner,
                users=1 if users is None and data is None else users,
                settings=settings,
                schema=file,
                categories=categories,
                randomizer=randomizer,
                **people,
                **conduct,
            )
            of_all = users is None and data is not None
            return planned(*_of_people(chosen, epsilon, users, of_all=of_all))
        learner = learners.find(learner).build(None, settings)
    made = partial(Study, learner, shape, design=design(randomizer), **conduct)
    return planned(made, users)


def _of_people(
    chosen: Callable[..., Named], epsilon: Epsilon | None, users: int | None, *, of_all: bool
) -> tuple[Callable[..., Study], int | None]:
    """Return what makes a study of a name's users at an epsilon, and the number of its users."""
    people = chosen(epsilon=1 if epsilon is None else epsilon).people(Seed.of(0))

    def made(*, epsilon: Epsilon) -> Study:
        return chosen(epsilon=epsilon).study(people)

    return made, people.size if of_all else users


def _with_texts(
    settings: Mapping[str, str] | None, parameters: Mapping[str, Any]
) -> Mapping[str, str] | None:
    """Return settings with parameters that were given as arguments, as text."""
    if not parameters:
        return settings
    texts = {key.replace("_", "-"): learners.canonical_text(one) for key, one in parameters.items()}
    return {**(settings or {}), **texts}


def _check_none(**given: object) -> None:
    """Refuse an argument of `plan` that goes with a learner's name, and not with a learner."""
    for name, value in given.items():
        if value is not None:
            raise InvalidParameter(
                f"plan: {name}: expected none with a learner itself, got {value_text(value)}"
            )


class _Wanted(NamedTuple):
    """Guarantee towards readers of tallies that a plan is to keep, in nano-nats."""

    outer: int
    delta: Fraction | None
    most_local: int


def _wanted(outer: Epsilon | None, delta: Rational | None, most_local: Epsilon) -> _Wanted | None:
    if outer is None:
        return None
    return _Wanted(
        read_nano_nats(outer, "outer_epsilon"),
        None if delta is None else read_probability(delta, "outer_delta"),
        read_nano_nats(most_local, "local_at_most"),
    )


def _file_of(schema: Path | Schema | None) -> Path | None:
    """Return the file of a schema; refuse a schema itself, which goes with a learner itself."""
    if isinstance(schema, Schema):
        raise InvalidParameter(
            f"plan: schema: expected a file with the name of a learner, got {value_text(schema)}"
        )
    return schema


def _planned(
    made: Callable[..., Study],
    users: int | None,
    *,
    epsilon: Epsilon | None,
    curve: bool,
    wanted: _Wanted | None,
) -> StudyPlan:
    """Plan the study that is made at an epsilon."""
    # None: at the one that keeps `wanted`, or at the least from which users are enough.
    if wanted is not None:
        if epsilon is not None:
            given = value_text(epsilon)
            raise InvalidParameter(f"outer_epsilon: expected no epsilon with it, got {given}")
        if curve:
            raise InvalidParameter("outer_epsilon: expected no curve with it, got one")
        return plan_outer_epsilon(lambda nats: made(epsilon=nats), users, *wanted)
    if epsilon is not None:
        if curve:
            raise InvalidParameter(f"curve: expected no epsilon with it, got {value_text(epsilon)}")
        return made(epsilon=epsilon).plan(users)
    if users is None:
        raise InvalidParameter(
            "epsilon: expected a number of nats, or a number of users that the least epsilon"
            " follows from, got neither"
        )
    return plan_least_epsilon(lambda nats: made(epsilon=nats), users, whole=curve)


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Return the learners, generated populations and their changes by name, with parameters.

    Example:
        >>> sorted(ask.catalogue())
        ['changes', 'datasets', 'learners', 'populations']
        >>> [entry["name"] for entry in ask.catalogue()["datasets"]]
        ['census']
    """
    return {
        "learners": [
            {
                "name": entry.name,
                "summary": entry.summary,
                "error": entry.error,
                "guess": entry.guess,
                "success": entry.success,
                "parameters": [
                    {"name": item.name, "summary": item.summary, "default": item.default}
                    for item in entry.parameters
                ],
            }
            for entry in learners.learners()
        ],
        "populations": [
            {
                "name": people.name,
                "summary": people.summary,
                "parameters": [
                    {"name": name, "summary": "", "default": str(default)}
                    for name, default in people.parameters
                ],
            }
            for _, people in sorted(populations.POPULATIONS.items())
        ],
        "datasets": [
            {
                "name": item.name,
                "summary": item.summary,
                "columns": list(item.columns),
                "parameters": [],
            }
            for _, item in sorted(populations.DATA_SETS.items())
        ],
        "changes": [
            {
                "name": change.name,
                "summary": change.summary,
                "parameters": [{"name": change.name, "summary": "a chance", "default": "0"}],
            }
            for change in populations.CHANGES
        ],
    }


def connect(
    address: str,
    *,
    key: AnalystKey | None = None,
    bearer_token_file: Path | str | None = None,
    ca: Path | str | None = None,
    plaintext: bool = False,
    counts_keys: Collection[bytes] = (),
) -> Aggregator:
    """Connect one analyst to an aggregator, for use in a `with` statement.

        with ask.connect("127.0.0.1:7443", key="analyst.pem", ca="ca.pem") as aggregator:
            handle = aggregator.submit(study)
            for event in handle.watch(): print(event)
            handle.result(timeout_s=3600).verify()

    Args:
        address: HOST:PORT.
        key: the analyst's Ed25519 key: itself, its file, or the file's bytes. None: no study can
            be submitted.
        bearer_token_file: file of a token of the organisation's issuer, read anew for each call.
            None: the key signs each call.
        ca: the authority that the aggregator's certificate is from; None: one that the system
            trusts, or, on this machine, plain text.
        plaintext: without TLS, readable by the network.
        counts_keys: public keys that may have signed the counts of an export, 32 bytes each, as the
            operator states them (`counts.pub`); an export with another, or none, is refused.
            Empty: any or none.

    Raises:
        InvalidParameter: no such file, no key in it, or no such address. Nothing is called yet.
    """
    from askance_aggregator import analyst

    return analyst.connect(
        address,
        key=key,
        bearer_token_file=bearer_token_file,
        ca=ca,
        plaintext=plaintext,
        counts_keys=counts_keys,
    )


def new_analyst_key(path: Path) -> str:
    """Make an analyst's key in a file that only its owner reads; the public half in hexadecimal.

    Raises:
        InvalidParameter: something is there already, or no file can be made.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> len(ask.new_analyst_key(Path(mkdtemp()) / "analyst.pem"))
        64
    """
    from askance_aggregator import analyst

    return analyst.public_hex(analyst.create_key(path))


def study_from_toml(path: Path | str) -> StudyDefinition:
    """Return a study as it is written down in a TOML file.

    Raises:
        InvalidParameter, InvalidRecord: not a study; the place is named.
    """
    from askance_aggregator import analyst

    return analyst.read_definition(Path(path))


def verify_export(
    path: Path | str,
    analysts: Collection[bytes] | None = None,
    aggregators: Collection[bytes] | None = None,
) -> Verification:
    """Replay a study's exported transcript, without asking any user.

    Args:
        path: the exported file.
        analysts: public keys, one of which must have signed the study; None: any.
        aggregators: public keys, one of which must have signed the counts; None: any, or none.

    Raises:
        InvalidRecord: the file is no export. AskanceError: it does not hold together.
    """
    from askance_aggregator import analyst

    return analyst.verify_export(Path(path), analysts, aggregators)


def check_output(path: Path | None, suffixes: tuple[str, ...]) -> None:
    """Refuse an output file that cannot be written, before the work for it starts."""
    if path is None:
        return
    if path.suffix not in suffixes:
        raise InvalidParameter(f"expected a file named *{' or *'.join(suffixes)}, got {path}")
    if not path.parent.is_dir():
        raise InvalidParameter(
            f"expected a folder for {path}, got none at {value_text(path.parent)}"
        )
    if path.is_dir():
        raise InvalidParameter(f"expected a file at {path}, got a folder")
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameter(
            f"expected a folder in which files can be made for {path}, got"
            f" {value_text(path.parent)}, which is write-protected"
        )
    writer, extra = _WRITERS.get(path.suffix, ("", ""))
    if writer and find_spec(writer) is None:
        raise InvalidParameter(
            f"expected {writer} installed to write {path}, got none: {install_text(extra)}"
        )
