"""Tallies drawn from their law: no device, no report and no coins per user.

A group's tally depends on its users only through how many of them are at each level. These numbers
follow from how many users have each record (`RecordTypes`), and the tally is drawn from them by its
family's law (`families.draw_tally`), at a cost that does not grow with the users. It is a
simulation of the aggregator's side alone: probabilities are floats (a relative 2^-53), what a
device checks is checked once for all, and the transcript names itself `DRAWN`, so that it is never
taken for a record of devices. The same seed gives the same numbers with the same version of NumPy.

What has no such law is refused by name: hashes, sign patterns and codebooks, users who lie or stay
away, and a question that the same users were asked before, whose answers devices keep.
"""

from __future__ import annotations

import numpy as np

from askance_aggregator.queries import EncodedColumns, values_of
from askance_aggregator.studies import Accounts, Cohort, Group, Round, Tally
from askance_client.device import ExaminedStudy, Examiner
from askance_client.errors import InvalidParameter
from askance_client.messages import Refusal, rounding_coins
from askance_client.queries import Query, QueryKind
from askance_client.randomizers import COIN_SPACE, Randomizer
from askance_simulation.families import MAX_GROUP, draw_tally, draws_by_users
from askance_simulation.families.dispatch import TallyCounts
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.opened import Progress
from askance_simulation.populations import RecordTypes
from askance_simulation.populations.record_types import UserCounts

DRAWN = "drawn from their law"
"""Kind of a transcript whose tallies no device contributed to."""


class TallyFleet:
    """Users of whom only the counts are drawn (see `studies.Fleet`).

    Raises:
      InvalidParameter: the population is not given by types, or users lie or stay away.
    """

    def __init__(self, devices: Devices, progress: Progress | None = None) -> None:
        if devices.population.types is None:
            raise InvalidParameter("tally: expected a population by types, got one of records")
        if devices.behaviour.lies or devices.behaviour.absences:
            manner = "lie" if devices.behaviour.lies else "stay away"
            raise InvalidParameter(
                "tally: expected users who are present and honest, got some who"
                f" {manner}: use --fleet columns"
            )
        self._devices = devices
        self._types: RecordTypes = devices.population.types
        self._progress = progress
        self._examiner = Examiner(capacity=4096)
        seed = devices.coins.key(b"tallies drawn from their law")
        self._rng = np.random.default_rng(int.from_bytes(seed, "big"))
        self._left = self._types.counts.copy()
        self._cohorts: dict[Cohort, UserCounts] = {}
        self._asked: set[tuple[Cohort, bytes]] = set()
        self._spent: dict[Cohort, int] = {}

    @property
    def population(self) -> int:
        return len(self._devices)

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        study = self._examiner.study(round_.study)
        if isinstance(study, Refusal):
            raise InvalidParameter(f"tally: expected a study that devices accept, got {study}")
        tallies = tuple(self._tally(group, study) for group in round_.groups)
        charged: dict[Cohort, int] = {}
        for group in round_.groups:
            charged[group.cohort] = charged.get(group.cohort, 0) + group.nano_nats
        for cohort, nano_nats in charged.items():
            spent = self._spent[cohort] = self._spent.get(cohort, 0) + nano_nats
            accounts.of(cohort).confirm_alike(cohort.size, nano_nats, spent)
        return tallies

    def recall(self, round_: Round, accounts: Accounts) -> None:
        """Refuse: nothing is kept that a study could be continued from."""
        raise InvalidParameter("tally: expected a study from its beginning, got one to continue")

    def _tally(self, group: Group, study: ExaminedStudy) -> Tally:
        asked = self._examiner.request(group.payload, study)
        if isinstance(asked, Refusal):
            raise InvalidParameter(f"tally: expected a request that devices accept, got {asked}")
        if (group.cohort, asked.question) in self._asked:
            raise InvalidParameter(
                "tally: expected a question that these users were not asked before, got the same:"
                " use --fleet columns"
            )
        self._asked.add((group.cohort, asked.question))
        users = self._users_of(group.cohort)
        levels = level_counts(group.query, group.randomizer, self._types.records, users, self._rng)
        counts = tally_of(group.randomizer, levels, self._rng)
        if self._progress is not None:
            self._progress(group.cohort.size)
        return Tally(
            counts=tuple(counts.tolist()),
            answered=group.cohort.size,
            asked=group.cohort.size,
            root=b"",
            refusals=(),
            reused=0,
        )

    def _users_of(self, cohort: Cohort) -> UserCounts:
        """Return how many users of a cohort have each record: drawn once, without replacement."""
        found = self._cohorts.get(cohort)
        if found is None:
            rest = int(self._left.sum())
            if cohort.size == rest:
                found = self._left.copy()
            elif rest > MAX_GROUP:
                raise InvalidParameter(
                    f"tally: expected at most {MAX_GROUP:,} users where a question goes to some of"
                    f" them, got {rest:,}: use --fleet columns"
                )
            else:
                found = self._rng.multivariate_hypergeometric(self._left, cohort.size)
            self._left -= found
            self._cohorts[cohort] = found
        return found


def level_counts(
    query: Query,
    randomizer: Randomizer,
    records: EncodedColumns,
    users: UserCounts,
    rng: np.random.Generator,
) -> TallyCounts:
    """Draw how many users are at each level of a randomizer, shape (levels,)."""
    if query.kind is QueryKind.VECTOR:
        raise InvalidParameter(
            "tally: expected questions with one value per user, got a vector: use --fleet columns"
        )
    values = np.asarray(values_of(query, records)).astype(np.int64)
    found = np.zeros(randomizer.levels, np.int64)
    if not rounding_coins(query, randomizer):
        np.add.at(found, values, users)
        return found
    span, steps = query.high - query.low, randomizer.levels - 1
    below, rest = np.divmod((values - query.low) * steps, span)
    exact = [(part << 64) // span / COIN_SPACE for part in rest.tolist()]  # as a device's threshold
    up = rng.binomial(users, exact)
    np.add.at(found, below, users - up)
    np.add.at(found, below[up > 0] + 1, up[up > 0])
    return found


def tally_of(randomizer: Randomizer, levels: TallyCounts, rng: np.random.Generator) -> TallyCounts:
    """Draw the tally of a group of any size, part by part where it is large."""
    if draws_by_users(randomizer):
        raise InvalidParameter(
            f"tally: expected a family whose tallies have a law, got {randomizer.name}:"
            " use --fleet columns"
        )
    parts = 1 + int(levels.sum()) // (MAX_GROUP // 2)
    whole, more = np.divmod(levels, parts)
    tallies = [
        draw_tally(randomizer, (whole + (part < more))[np.newaxis], rng)[0] for part in range(parts)
    ]
    total: TallyCounts = np.sum(tallies, axis=0)
    return total
