"""Releases of tallies, for the operator's account of what their readers learn of each user.

A row per request whose tally was published: the frozen question's digest, and who answered. It is
written when the round has closed and before its tally leaves the hub, so that nothing is published
that is not in the account. A round that is closed again after a crash replaces its rows, under new
numbers, so that who has counted the old ones sees it. Rows stay
when reports and results are deleted: what was published stays published. They hold no answers.

The account that follows from them is kept too, so that replicas and restarts go on with one. It is
replaced only if it is still the one that was read.

Curves are figures of the accountant's, kept because they take seconds to compute.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.store.dialect import Dialect, Execute, first_row, list_rows, study_number
from askance_aggregator.store.replicas import Replicas

_TURN = 0x6F75746572  # "outer": numbers of releases have no gap and no order but that of commits
_NEW = "INSERT INTO outer_releases VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, eq=False)
class OuterRelease:
    """Tally of one request that is published.

    Args:
      request: digest of the request.
      question: digest under which devices freeze the answer.
      randomizer: encoded.
      users: ordinals whose answers it counts, rising.
      again: those of them whose devices say that they had answered before, rising.
    """

    request: bytes
    question: bytes
    randomizer: bytes
    users: NDArray[np.int64]
    again: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OuterTerms:
    """Terms of the account, fixed at the first release.

    Args:
      delta: of one person over all releases.
      began_unix_s: time of the first release, on the store's clock.
    """

    delta: Fraction
    began_unix_s: int


@dataclass(frozen=True, slots=True)
class KeptAccount:
    """Account of all replicas as the store has it.

    Args:
      version: names the accountant whose state it is; empty: none has counted.
      counted: number of the last release that it counts.
      releases: number of releases that it counts.
      state: of an `OuterAccount`, without its questions.
    """

    version: str
    counted: int
    releases: int
    state: bytes


class OuterReleases:
    """The account's rows. Safe to share between threads; durable when a method returns."""

    def __init__(self, dialect: Dialect, replicas: Replicas) -> None:
        self._dialect = dialect
        self._replicas = replicas

    def record(
        self, study: bytes, releases: Sequence[OuterRelease], delta_for: Callable[[int], Fraction]
    ) -> None:
        """Add a closed round's releases, or replace them; for the study's driver alone.

        `delta_for` returns a user's delta by the number of enrolled devices; the first release of
        all fixes it.
        """
        if not releases:
            return

        def step(execute: Execute) -> None:
            number = study_number(execute, study)
            self._replicas.check(execute, number)
            self._dialect.take_turn(execute, _TURN)
            ((enrolled,),) = execute(self._dialect.population, ()).fetchall()
            execute(
                "INSERT INTO outer_account (single, inverse_delta, began_unix_s)"
                f" VALUES (1, ?, {self._dialect.now_s}) ON CONFLICT DO NOTHING",
                (ceil(1 / delta_for(max(1, int(enrolled)))),),
            )
            for one in releases:
                ((last,),) = execute(
                    "SELECT coalesce(max(number), 0) FROM outer_releases", ()
                ).fetchall()
                execute("DELETE FROM outer_releases WHERE request = ?", (one.request,))
                columns = (one.request, number, one.question, one.randomizer)
                execute(_NEW, (int(last) + 1, *columns, _packed(one.users), _packed(one.again)))

        self._dialect.write(step)

    def terms(self) -> OuterTerms | None:
        """Return the account's terms; None before the first release."""
        row = first_row(self._dialect, "SELECT inverse_delta, began_unix_s FROM outer_account")
        return None if row is None else OuterTerms(Fraction(1, int(row[0])), int(row[1]))

    def releases(self, after: int = 0, most: int = 64) -> list[tuple[int, OuterRelease]]:
        """Return the next releases with their numbers, the oldest first."""
        rows = list_rows(
            self._dialect,
            "SELECT number, request, question, randomizer, users, again FROM outer_releases"
            " WHERE number > ? ORDER BY number LIMIT ?",
            (after, most),
        )
        return [(int(number), _release_of(*row)) for number, *row in rows]

    def of_question(self, request: bytes) -> list[OuterRelease]:
        """Return all releases of the frozen question of a request's tally, the oldest first."""
        rows = list_rows(
            self._dialect,
            "SELECT request, question, randomizer, users, again FROM outer_releases WHERE question"
            " = (SELECT question FROM outer_releases WHERE request = ?) ORDER BY number",
            (request,),
        )
        return [_release_of(*row) for row in rows]

    def number(self) -> int:
        """Return the number of releases."""
        row = first_row(self._dialect, "SELECT count(*) FROM outer_releases")
        return 0 if row is None else int(row[0])

    def number_up_to(self, counted: int) -> int:
        """Return the number of releases up to one, those that were replaced since left out."""
        row = first_row(
            self._dialect, "SELECT count(*) FROM outer_releases WHERE number <= ?", (counted,)
        )
        return 0 if row is None else int(row[0])

    def account(self) -> KeptAccount | None:
        """Return the account as it is kept; None before the first release."""
        row = first_row(
            self._dialect, "SELECT version, counted, releases, state FROM outer_account"
        )
        if row is None:
            return None
        version, counted, releases, state = row
        return KeptAccount(str(version), int(counted), int(releases), bytes(state or b""))

    def question_state(self, question: bytes) -> bytes | None:
        """Return the account's state of a question; None if it has none."""
        row = first_row(
            self._dialect, "SELECT state FROM outer_questions WHERE question = ?", (question,)
        )
        return None if row is None else bytes(row[0])

    def keep_account(
        self,
        before: KeptAccount,
        after: KeptAccount,
        questions: Mapping[bytes, bytes],
        figures: str | None,
        *,
        is_anew: bool = False,
    ) -> bool:
        """Replace the account, if it is still the one before; return whether it was.

        Args:
          before: as it was read.
          after: with more releases, or begun anew.
          questions: states of the questions that these releases are of.
          figures: JSON object; None: the ones that are kept stay.
          is_anew: whether `after` was begun from the first release on, so that no kept question is
            of it.
        """
        old = before.version, before.counted, before.releases
        new = after.version, after.counted, after.releases, after.state

        def step(execute: Execute) -> bool:
            kept = execute(
                "UPDATE outer_account SET version = ?, counted = ?, releases = ?, state = ?"
                " WHERE version = ? AND counted = ? AND releases = ?",
                (*new, *old),
            ).rowcount
            if not kept:
                return False
            if is_anew:
                execute("DELETE FROM outer_questions", ())
            for question, state in questions.items():
                execute("DELETE FROM outer_questions WHERE question = ?", (question,))
                execute("INSERT INTO outer_questions VALUES (?, ?)", (question, state))
            if figures is not None:
                execute("UPDATE outer_account SET figures = ?", (figures,))
            return True

        return self._dialect.write(step)

    def figures(self) -> dict[str, Any] | None:
        """Return the figures that are kept; None before the first."""
        row = first_row(self._dialect, "SELECT figures FROM outer_account WHERE figures <> ''")
        return None if row is None else dict(json.loads(row[0]))

    def keep_curve(
        self, randomizer: bytes, answers: int, epsilons: Sequence[float], deltas: Sequence[float]
    ) -> None:
        """Keep a curve of the accountant's; one that is kept stays."""
        points = json.dumps([list(epsilons), list(deltas)])
        self._dialect.write(
            lambda execute: (
                execute(
                    "INSERT INTO outer_curves VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (randomizer, answers, points),
                ).rowcount
            )
        )

    def curve(
        self, randomizer: bytes, answers: int
    ) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Return the epsilons and the deltas of a curve; None if it is not kept."""
        row = first_row(
            self._dialect,
            "SELECT points FROM outer_curves WHERE randomizer = ? AND answers = ?",
            (randomizer, answers),
        )
        if row is None:
            return None
        epsilons, deltas = json.loads(row[0])
        return tuple(epsilons), tuple(deltas)


def _release_of(
    request: bytes, question: bytes, randomizer: bytes, users: bytes, again: bytes
) -> OuterRelease:
    digests = bytes(request), bytes(question), bytes(randomizer)
    return OuterRelease(*digests, _unpacked(users), _unpacked(again))


def _packed(users: NDArray[np.int64]) -> bytes:
    """A bit per ordinal, compressed."""
    held = np.zeros(int(users[-1]) + 1 if len(users) else 0, np.bool_)
    held[users] = True
    return zlib.compress(np.packbits(held).tobytes(), 1)


def _unpacked(data: bytes) -> NDArray[np.int64]:
    bits = np.frombuffer(zlib.decompress(bytes(data)), np.uint8)
    return np.flatnonzero(np.unpackbits(bits)).astype(np.int64)
