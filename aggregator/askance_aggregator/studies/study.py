"""Study: a learner, the users that it asks, and the budget of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator import names
from askance_aggregator.encoding import sign_study
from askance_aggregator.families import best_for
from askance_aggregator.learners import Learner, Unbound
from askance_aggregator.numbers import Rational, plain_arguments, read_nano_nats, read_probability
from askance_aggregator.planning import Design, RoundRules, StudyPlan, fields_needed, plan, settled
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.report import CommandReport, Grid, Part, more_rows, shown_rows
from askance_aggregator.reports.schemas import Schema
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.ledger import MAX_ANSWERS
from askance_client.messages import DEFAULT_ANSWERS, Conduct, Repeat, SignedStudy, StudyTerms
from askance_client.printable import value_text

Epsilon = Rational


@dataclass(frozen=True, eq=False, init=False)
class Study:
    """Decisions of an analyst before any user is asked.

    Args:
      learner: what asks, with or without a schema; a parameter that it leaves open is settled here,
        by what needs the fewest users, and is signed with the others (`planning.settled`).
      schema: the shape of a record, which a learner that names columns is given; of one that was
        inferred from data, the shape that suits the learner. None: the learner's own, or that of
        the users that the study is run on.
      epsilon: each user's whole budget for the study, in nats; kept in whole nano-nats, rounded
        down.
      beta: the chance, over all answers together, that one is off by its tolerance or more.
      confidence: of intervals, jointly over the cells shown.
      delta: for the result only, which shows the worst user's composed charges at this delta beside
        their sum. Devices do not receive it, and charge and refuse by sums.
      design: which randomizer is used for how many levels and nano-nats.
      purpose: one line for the users who are asked.
      round_deadline_s: a round closes so long after it opened, with the answers that came; 0: when
        all have answered.
      least_answers: in every group of a round; fewer end the study.
      waves: in how many parts, fixed in advance, the users of a round are asked. It ends as soon
        as the answers that came are exact enough; beta holds all the same. 1: all at once.
      fields: names of the schema's fields that the study's queries may use, and that its analyst
        signs; devices refuse any other. None: those that the learner needs (`fields_needed`). At
        least these must be among them.
      most_answers: of a user, all rounds and epochs together; signed, and devices refuse further
        questions. A plan that asks more is refused.

    Raises:
      InvalidParameter: a number out of range, or a learner that has no schema.

    Example:
      >>> people = ask.read("census")
      >>> study = ask.Study(ask.learners.frequency("education"), people.schema, epsilon=1)
      >>> study
      <Study: frequency of education, epsilon 1, schema census>
      >>> study.plan(n_users=people.size).feasible
      True
      >>> study.fields
      ('education',)
    """

    learner: Learner[Any]
    given_schema: Schema | None
    nano_nats: int
    conduct: Conduct
    design: Design
    purpose: str
    delta: Fraction | None
    given_fields: tuple[str, ...] | None
    most_answers: int

    @plain_arguments
    def __init__(
        self,
        learner: Learner[Any],
        schema: Schema | None = None,
        *,
        epsilon: Epsilon,
        beta: Epsilon = "0.01",
        confidence: Epsilon = "0.95",
        delta: Epsilon | None = None,
        design: Design = best_for,
        purpose: str = "",
        round_deadline_s: int = 0,
        least_answers: int = 0,
        waves: int = 1,
        fields: Collection[str] | None = None,
        most_answers: int = DEFAULT_ANSWERS,
    ) -> None:
        if not isinstance(learner, Learner):
            hint = " (call its function)" if callable(learner) else ""
            raise InvalidParameter(
                f"study: learner: expected a learner{hint}, got {value_text(learner)}"
            )
        schema = learner.schema if schema is None else schema
        if schema is not None:
            learner, schema = _bound(learner, schema)
        if not callable(design):
            raise InvalidParameter(
                f"study: expected a design to call, found {type(design).__name__}"
            )
        if not 1 <= most_answers <= MAX_ANSWERS:
            raise InvalidParameter(
                f"most_answers: expected 1 to {MAX_ANSWERS}, got {value_text(most_answers)}"
            )
        nano_nats = read_nano_nats(epsilon)
        conduct = Conduct(
            read_probability(beta, "beta"),
            read_probability(confidence, "confidence"),
            round_deadline_s,
            least_answers,
            waves,
        )
        if schema is not None:
            rules = RoundRules.of(conduct, design)
            learner = settled(learner, nano_nats, conduct.beta, None, rules, signing=True)
        values = {
            "learner": learner,
            "given_schema": schema,
            "nano_nats": nano_nats,
            "conduct": conduct,
            "design": design,
            "purpose": purpose,
            "delta": None if delta is None else read_probability(delta, "delta"),
            "given_fields": None if fields is None else _field_names(fields, schema),
            "most_answers": most_answers,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def schema(self) -> Schema:
        """Return the shape of a record.

        Raises:
          InvalidParameter: neither the study nor its learner was given one.
        """
        if self.given_schema is None:
            raise InvalidParameter(
                f"study: expected a schema, got none for {self.learner.name}: simulate takes that"
                " of the users, and Study(learner, schema, ...) has its own"
            )
        return self.given_schema

    @property
    def _learner(self) -> Learner[Any]:
        """Return the learner for records of the schema; InvalidParameter: there is none."""
        return self.learner.bound(self.schema)

    def bound(self, schema: Schema) -> Study:
        """Return the study for records of a schema, if it has none; else as it is.

        Raises:
          InvalidParameter: as of a study that is given the schema.
        """
        if self.given_schema is not None:
            return self
        return Study(
            self.learner,
            schema,
            epsilon=Fraction(self.nano_nats, 10**9),
            beta=self.beta,
            confidence=self.confidence,
            delta=self.delta,
            design=self.design,
            purpose=self.purpose,
            round_deadline_s=self.conduct.round_deadline_s,
            least_answers=self.conduct.least_answers,
            waves=self.conduct.waves,
            fields=self.given_fields,
            most_answers=self.most_answers,
        )

    @property
    def epsilon(self) -> float:
        """Budget in nats, as text."""
        return self.nano_nats / 10**9

    @property
    def beta(self) -> Fraction:
        """The chance, over all answers together, that one is off by its tolerance or more."""
        return self.conduct.beta

    @property
    def confidence(self) -> Fraction:
        """Confidence of intervals, jointly over the cells shown."""
        return self.conduct.confidence

    @property
    def subject(self) -> str:
        """Learner and the columns that it was given, or else the schema: "frequency of age"."""
        if self.given_schema is None:
            return repr(self.learner).strip("<>").removeprefix("Unbound: ")
        named = self.learner.argument_fields
        fields = sorted(named) if self.given_fields is None else self.given_fields
        about = self.schema.name
        if 0 < len(fields) <= names.MAX_NAMED:
            about = self._columns(names.subject_of(self.schema, fields, self.learner.parameters))
        return f"{self.learner.name} of {about}"

    def __repr__(self) -> str:
        return line_of("Study", f"{self.subject}, epsilon {self.epsilon:.9g}, {self._of}")

    @property
    def _of(self) -> str:
        given = self.given_schema
        return "without a schema" if given is None else f"schema {given.name}"

    def _repr_html_(self) -> str:
        """Show the decisions of the study in a notebook; nothing is planned or asked."""
        given = {
            "purpose": self.purpose,
            "epsilon": f"{self.epsilon:.9g} nats per user",
            "beta": f"{float(self.beta):g}",
            "confidence": f"{float(self.confidence):g}",
            "delta": "" if self.delta is None else f"{float(self.delta):g}",
            "waves": str(self.conduct.waves) if self.conduct.waves > 1 else "",
            "schema": (
                "that of the users"
                if self.given_schema is None
                else f"{self.schema.name}, version {self.schema.version}"
            ),
            **self.learner.parameters,
        }
        heads = ("setting", "value")
        rows: list[tuple[str, ...]] = [(name, text) for name, text in given.items() if text]
        shown = [rows[place] for place in shown_rows(len(rows), every=False)]
        table = Grid(heads, left=heads, long=heads, rows=shown)
        body: list[Part] = [table, *more_rows(len(rows), len(shown))]
        return html_of(CommandReport(f"study: {self.subject}", body))

    @plain_arguments
    def plan(self, n_users: int | None = None) -> StudyPlan:
        """Plan the users of each round and their randomizers; no user is asked."""
        found = plan(self._learner, self.nano_nats, self.beta, n_users, self._rules)
        fields = tuple(map(self._columns, found.fields))
        return replace(
            found, fields=fields, settings=names.names_of(self.schema).in_json(found.settings)
        )

    def _columns(self, text: str) -> str:
        """Return a text with columns' own names."""
        return names.names_of(self.schema).in_text(text)

    @plain_arguments
    def settled(self, n_users: int | None) -> Learner[Any]:
        """Return the learner with the settings that it was not given.

        They are for so many users; None: for as many as are needed.
        """
        return settled(self._learner, self.nano_nats, self.beta, n_users, self._rules)

    @property
    def _rules(self) -> RoundRules:
        return RoundRules.of(self.conduct, self.design)

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the fields that are signed, sorted by name.

        Raises:
          InvalidParameter: the fields given leave out one that the learner needs.
        """
        needed = fields_needed(self._learner)
        if self.given_fields is None:
            return tuple(sorted(needed))
        missing = sorted(needed - set(self.given_fields))
        if missing:
            raise InvalidParameter(
                f"fields: expected all that {self.learner.name} asks about, got none named"
                f" {', '.join(missing)}"
            )
        return self.given_fields

    def terms(
        self, *, nonce: bytes, expires_unix_s: int, repeat: Repeat | None = None
    ) -> StudyTerms:
        """Make the signed terms of the study, without names of columns (see `sign_submission`).

        Args:
          nonce: 16 bytes that distinguish this study from any other.
          expires_unix_s: devices refuse it from then on.
          repeat: its epochs; None: it collects once.
        """
        return StudyTerms(
            nonce=nonce,
            learner=self.learner.name,
            learner_version=self.learner.version,
            parameters=tuple(self.learner.parameters.items()),
            schema=names.plain_schema(self.schema),
            budget_nano_nats=self.nano_nats,
            expires_unix_s=expires_unix_s,
            purpose=self.purpose,
            conduct=self.conduct,
            fields=self.fields,
            distribution=self.learner.distribution,
            repeat=repeat,
            most_answers=self.most_answers,
        )

    def sign(
        self,
        key: Ed25519PrivateKey,
        *,
        nonce: bytes,
        expires_unix_s: int,
        repeat: Repeat | None = None,
    ) -> SignedStudy:
        """The study as devices meet it (see `terms`)."""
        terms = self.terms(nonce=nonce, expires_unix_s=expires_unix_s, repeat=repeat)
        return sign_study(terms, key)


def _bound(learner: Learner[Any], schema: Schema) -> tuple[Learner[Any], Schema]:
    """Return a learner for records of a schema, and the schema, or another of the same data."""
    if not isinstance(schema, Schema):
        raise InvalidParameter(f"study: schema: expected a schema, got {value_text(schema)}")
    if isinstance(learner, Unbound):
        schema = names.suiting_schema(schema, partial(_suits, learner), learner.columns)
    learner = learner.bound(schema)
    if learner.schema is not None and learner.schema.digest != schema.digest:
        raise InvalidParameter(
            f"study: expected the schema of its learner, {learner.schema.name!r},"
            f" got {value_text(schema.name)}"
        )
    return learner, schema


def _suits(learner: Learner[Any], schema: Schema) -> bool:
    """Return whether a learner can be made for a schema."""
    try:
        learner.bound(schema)
    except (InvalidParameter, InvalidQuery):
        return False
    return True


def _field_names(fields: Collection[str], schema: Schema | None) -> tuple[str, ...]:
    """Return the names sorted, each once, if the schema has them all; without one as they are."""
    if isinstance(fields, str):
        raise InvalidParameter(f"fields: expected a list of names, got the text {fields!r}")
    if schema is None:
        return tuple(fields)
    found = [names.field_called(name, schema.fields) for name in fields]
    for name in found:
        if name not in schema.fields:
            raise InvalidParameter(f"fields: {names.unknown_column(name, schema.fields)}")
    return tuple(sorted(set(found)))
