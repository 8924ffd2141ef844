"""The population as columns: the same answers as from device objects, many times as fast.

A chunk of 2^16 ordinals at a time, a group's query is evaluated by the expressions' own code, the
reports are drawn by `column_draws` from the coins that each device would draw, and folded into
counts and a leaf of the Merkle tree; no report outlives its chunk. What a device checks before it
answers is checked once for all, since all have one policy; what each has spent is kept a user, and
so is what is frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.aggregator.session import MISSING, Accounts, Group, Round, Tally
from askance.aggregator.session.tallies import CHUNK, leaf, merkle_root
from askance.client.device import ExaminedRequest, ExaminedStudy, Examiner
from askance.client.messages import Reason, Refusal, rounding_coins
from askance.client.queries import QueryKind
from askance.client.randomizers import round_to_levels
from askance.simulation.fleets.column_draws import draw
from askance.simulation.fleets.devices import Devices
from askance.simulation.fleets.opened import Progress

Ordinals = NDArray[np.int64]

_WORDS_AT_ONCE = 1 << 23  # coins drawn together: bounds memory where an answer takes hundreds


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Members of a group who answer with the coins of one request: this one, or the one under which
    the same question was frozen; what that costs each, and what the study has then cost them."""

    coins: bytes
    members: Ordinals
    charged: int
    spent: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Refused:
    """Members who refuse, why, and what the study has cost them."""

    reason: Reason
    members: Ordinals
    spent: NDArray[np.int64]


class ColumnFleet:
    """Users as columns (see `session.Fleet`); their devices exist as arithmetic only.

    Args:
      devices: the population, policy, coins and clock that its devices have; they differ from each
        other in record, coins and history only.
      progress: told how many more reports have come in.
    """

    def __init__(self, devices: Devices, progress: Progress | None = None) -> None:
        self._devices = devices
        self._progress = progress
        self._examiner = Examiner(capacity=4096)
        self._life = np.zeros(len(devices), np.int64)
        self._studies: dict[bytes, NDArray[np.int64]] = {}
        self._answered: dict[bytes, list[_Part]] = {}  # request -> who answered it, ever
        self._frozen: dict[bytes, list[tuple[bytes, Ordinals]]] = {}  # question -> who, under what

    @property
    def population(self) -> int:
        return len(self._devices)

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        tallies = []
        for group in round_.groups:
            refused = self._settle(round_, group)
            for refusal in refused:
                _confirm(group, accounts, refusal.members, 0, refusal.spent)
            self._confirm(group, accounts)
            tallies.append(self._tally(group, refused))
        return tuple(tallies)

    def recall(self, round_: Round, accounts: Accounts) -> None:
        for group in round_.groups:
            self._confirm(group, accounts)

    def _confirm(self, group: Group, accounts: Accounts) -> None:
        for part in self._answered.get(group.digest, ()):
            _confirm(group, accounts, part.members, part.charged, part.spent)

    def _settle(self, round_: Round, group: Group) -> list[_Refused]:
        """Decides who answers, and charges them, as each device's core and ledger would.

        Who has answered this request before does so again; the others are asked anew."""
        answered = self._answered.setdefault(group.digest, [])
        members = group.cohort.members
        for part in answered:
            members = np.setdiff1d(members, part.members, assume_unique=True)
        study = self._study(round_)
        if isinstance(study, Refusal):  # whatever the reason: its requests are of no known study
            return _refused(Reason.UNKNOWN_STUDY, members, np.zeros_like(self._life))
        spent = self._studies.setdefault(study.digest, np.zeros_like(self._life))
        asked = self._request(group, study)
        if isinstance(asked, Refusal):
            return _refused(asked.reason, members, spent)
        frozen = self._frozen.setdefault(asked.question, [])
        for coins, earlier in frozen:
            again = np.intersect1d(members, earlier, assume_unique=True)
            if len(again):
                answered.append(_Part(coins, again, 0, spent[again]))
                members = np.setdiff1d(members, again, assume_unique=True)
        able, refused = self._able(asked, study, members, spent)
        if len(able):
            self._life[able] += asked.nano_nats
            spent[able] += asked.nano_nats
            answered.append(_Part(group.digest, able, asked.nano_nats, spent[able]))
            frozen.append((group.digest, able))
        return refused

    def _study(self, round_: Round) -> ExaminedStudy | Refusal:
        """The study, if these devices accept it (see `Device.introduce`)."""
        if round_.study.public_key not in self._devices.policy.analysts:
            return Refusal(Reason.UNTRUSTED_KEY, "expected a study signed by a pinned analyst key")
        study = self._examiner.study(round_.study)
        if isinstance(study, Refusal):
            return study
        if study.terms.schema.digest != self._devices.population.schema.digest:
            return Refusal(Reason.SCHEMA_MISMATCH, "expected a study of the population's schema")
        return study

    def _request(self, group: Group, study: ExaminedStudy) -> ExaminedRequest | Refusal:
        """The request, if these devices answer it, budgets aside (see `Device.answer`)."""
        asked = self._examiner.request(group.payload, group.digest, study)
        if isinstance(asked, Refusal):
            return asked
        objection = self._devices.policy.objection(asked.request.query.fields_used)
        if objection is not None:
            return objection
        if self._devices.now_s() >= study.terms.expires_unix_s:
            return Refusal(Reason.EXPIRED, "expected a study that has not expired")
        return asked

    def _able(
        self,
        asked: ExaminedRequest,
        study: ExaminedStudy,
        members: Ordinals,
        spent: NDArray[np.int64],
    ) -> tuple[Ordinals, list[_Refused]]:
        """Who can pay, and who cannot, by the narrowest limit that they would pass.

        The clock stands still, so that a day's spending is the life's."""
        limits = self._devices.policy.limits(study.terms)
        refused: list[_Refused] = []
        for reason, limit, so_far in (
            (Reason.OVER_STUDY_BUDGET, limits.study, spent),
            (Reason.OVER_DAY_BUDGET, limits.day, self._life),
            (Reason.OVER_LIFE_BUDGET, limits.life, self._life),
        ):
            over = so_far[members] > limit - asked.nano_nats
            refused += _refused(reason, members[over], spent)
            members = members[~over]
        return members, refused

    def _tally(self, group: Group, refused: list[_Refused]) -> Tally:
        parts = self._answered[group.digest]
        counts = group.randomizer.tally(np.zeros((0, group.randomizer.width), np.uint8))
        leaves = []
        for chunk, members in _chunks(group.cohort.members, group.population):
            symbols = np.full((len(members), group.randomizer.width), MISSING, np.uint8)
            answered = np.zeros(len(members), np.bool_)
            for part in parts:
                here = _within(part.members, chunk)
                if not len(here):
                    continue
                places = members.searchsorted(here)
                symbols[places] = self._draw(group, part.coins, chunk, here)
                answered[places] = True
            counts += group.randomizer.tally(symbols[answered])
            leaves.append(leaf(chunk, symbols.tobytes()))
            if self._progress is not None:
                self._progress(len(members))
        return Tally(
            counts=tuple(int(count) for count in counts),
            answered=sum(len(part.members) for part in parts),
            asked=len(group.cohort.members),
            root=merkle_root(leaves),
            refusals=tuple(sorted((one.reason, len(one.members)) for one in refused)),
        )

    def _draw(self, group: Group, coins: bytes, chunk: int, members: Ordinals) -> NDArray[np.uint8]:
        """The reports of members of one chunk (see `Device`'s own draw)."""
        query, randomizer = group.query, group.randomizer
        rounding = rounding_coins(query)
        words = self._words(group, coins, chunk, members, randomizer.coins + rounding)
        words, last = words[:, : randomizer.coins], words[:, randomizer.coins :]
        start = chunk * CHUNK
        stop = min(start + CHUNK, group.population)
        people = self._devices.population.columns(start, stop).take(members - start)
        if query.kind is QueryKind.VECTOR:
            numbers = query.evaluate_vector(people)
            return draw(randomizer, round_to_levels(numbers, query.low, query.high, 2, last), words)
        levels = query.evaluate(people)
        if rounding:
            one = np.ascontiguousarray(last[:, 0])
            levels = round_to_levels(levels, query.low, query.high, randomizer.levels, one)
        return draw(randomizer, levels, words)

    def _words(
        self, group: Group, coins: bytes, chunk: int, members: Ordinals, count: int
    ) -> NDArray[np.uint64]:
        """The coins of these members, drawn for everybody between them, so many at once."""
        start, stop = chunk * CHUNK, min((chunk + 1) * CHUNK, group.population)
        step = max(1, _WORDS_AT_ONCE // count)
        parts = []
        for first in range(start, stop, step):
            last = min(first + step, stop)
            here = members[slice(*members.searchsorted([first, last]))]
            if len(here):
                parts.append(self._devices.coins.columns(coins, first, last, count)[here - first])
        return np.concatenate(parts) if parts else np.zeros((0, count), np.uint64)


def _confirm(
    group: Group, accounts: Accounts, members: Ordinals, charged: int, spent: NDArray[np.int64]
) -> None:
    """Enters what these members say, one by one."""
    account = accounts.of(group.cohort)
    for place, total in zip(
        group.cohort.members.searchsorted(members).tolist(), spent.tolist(), strict=True
    ):
        account.confirm(place, charged, total)


def _refused(reason: Reason, members: Ordinals, spent: NDArray[np.int64]) -> list[_Refused]:
    """The refusal of these members, if there are any."""
    return [_Refused(reason, members, spent[members])] if len(members) else []


def _chunks(members: Ordinals, population: int) -> Iterator[tuple[int, Ordinals]]:
    for start in range(0, population, CHUNK):
        yield start // CHUNK, _within(members, start // CHUNK)


def _within(members: Ordinals, chunk: int) -> Ordinals:
    """Those of sorted members whose ordinals lie in a chunk."""
    first, last = members.searchsorted([chunk * CHUNK, (chunk + 1) * CHUNK])
    return members[first:last]
