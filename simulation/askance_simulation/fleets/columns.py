"""The population as columns: the same answers as from device objects, many times as fast.

A chunk of 2^16 ordinals at a time, the queries are evaluated by the expressions' own code, the
reports are drawn by `families.draw` from the coins that each device would draw, and folded into
counts and a leaf of the Merkle tree; no report outlives its chunk. What a device checks before it
answers is checked once for all, since all have one policy. What each has spent, and what is frozen,
follows from what it was asked (`histories`), so nothing is kept a user.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from askance_aggregator.families import family_of
from askance_aggregator.studies import Accounts, Cohort, Group, Round, Tally
from askance_aggregator.studies.tallies import MerkleTree
from askance_client.device import ExaminedRequest, ExaminedStudy, Examiner
from askance_client.device.settling import off_epoch
from askance_client.ledger import SECONDS_PER_DAY, Limits
from askance_client.messages import Reason, Refusal
from askance_simulation.families.fused import Sums, counts_of
from askance_simulation.fleets.chunks import ChunkWork, ShardResult
from askance_simulation.fleets.classes import Classes, ClassResponse
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.histories import Ask
from askance_simulation.fleets.opened import Progress
from askance_simulation.fleets.threads import Runner, Threads

_NOTHING = Limits(0, 0, 0)
_Users = Counter[tuple[ClassResponse, ...]]


class ColumnFleet:
    """Users as columns (see `studies.Fleet`), whose devices exist as arithmetic only.

    Args:
      devices: the population, policy, coins, clock and behaviour that its devices have; they differ
        from each other in record, coins and history only.
      runner: computes the chunks; None: the threads of this process, one per core.
      expected: users of all trials that this process will run; 0: of this one only.
    """

    def __init__(
        self,
        devices: Devices,
        progress: Progress | None = None,
        runner: Runner | None = None,
        expected: int = 0,
    ) -> None:
        self._devices = devices
        self._progress = progress
        self._runner = Threads() if runner is None else runner
        self._expected = expected
        self._examiner = Examiner(capacity=4096)
        self._asks: list[Ask] = []
        self._users: dict[tuple[bytes, ...], _Users] = {}  # a round's latest responses

    @property
    def population(self) -> int:
        return len(self._devices)

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        study = self._study(round_)
        self._asks += [self._ask(round_, group, study) for group in round_.groups]
        folded = [_Folded(group) for group in round_.groups]
        users: _Users = Counter()
        for result in self._runner.run(self._work(round_)):
            for place, one in enumerate(folded):
                one.add(result, place)
            users.update(result.users)
            if result.read is not None:
                self._devices.observed.add(result.read)
            if self._progress is not None:
                self._progress(result.reports)
        self._users[_digests(round_)] = users
        _confirm(round_, accounts, users)
        return tuple(one.tally(users, place) for place, one in enumerate(folded))

    def recall(self, round_: Round, accounts: Accounts) -> None:
        users: _Users = Counter()
        known = self._users.get(_digests(round_), Counter())
        for said, count in known.items():  # a refusal spent nothing and is not kept
            users[tuple(one for one in said if one.refused is None)] += count
        _confirm(round_, accounts, users)

    def _work(self, round_: Round) -> ChunkWork:
        """Collect the round's chunks and the earlier requests that its users may have had."""
        groups = len(round_.groups)
        asked = {group.cohort for group in round_.groups}
        before, now = self._asks[:-groups], self._asks[-groups:]
        matter = [ask for ask in before if any(_meet(ask.cohort, cohort) for cohort in asked)]
        return ChunkWork(
            self._devices.population,
            self._devices.behaviour,
            tuple(group.randomizer for group in round_.groups),
            tuple(group.salting_key for group in round_.groups),
            Classes((*matter, *now), groups, self._devices.behaviour),
            self._expected,
            self._devices.observed.observation,
        )

    def _ask(self, round_: Round, group: Group, study: ExaminedStudy | Refusal) -> Ask:
        """Compute the result of all devices' examination of a request (see `Device.answer`)."""
        question, nano_nats, weight, limits = b"", 0, 0, _NOTHING
        objection: Reason | None
        now_s = self._devices.now_s()
        if isinstance(study, Refusal):  # whatever the reason: its requests are of no known study
            objection = Reason.UNKNOWN_STUDY
        else:
            asked = self._request(group, study)
            if isinstance(asked, Refusal):
                objection = asked.reason
            else:
                objection, question = None, asked.question
                nano_nats, weight = asked.nano_nats, asked.weight
                limits = self._devices.policy.limits(study.terms, now_s // SECONDS_PER_DAY)
        return Ask(
            cohort=group.cohort,
            study=round_.study_digest,
            round=round_.number,
            request=group.digest,
            query=group.query,
            randomizer=group.randomizer,
            key=self._devices.coins.key(group.digest),
            question=question,
            nano_nats=nano_nats,
            weight=weight,
            limits=limits,
            objection=objection,
            at_s=now_s,
        )

    def _study(self, round_: Round) -> ExaminedStudy | Refusal:
        """Return the study, if these devices accept it (see `Device.introduce`)."""
        if round_.study.public_key not in self._devices.policy.analysts:
            return Refusal(Reason.UNTRUSTED_KEY, "expected a study signed by a pinned analyst key")
        study = self._examiner.study(round_.study)
        if isinstance(study, Refusal):
            return study
        if study.terms.schema.digest != self._devices.population.schema.digest:
            return Refusal(Reason.SCHEMA_MISMATCH, "expected a study of the population's schema")
        return study

    def _request(self, group: Group, study: ExaminedStudy) -> ExaminedRequest | Refusal:
        """Return the request, or the devices' refusal of it; budgets are not checked here."""
        asked = self._examiner.request(group.payload, study)
        if isinstance(asked, Refusal):
            return asked
        policy, repeat, now_s = self._devices.policy, study.terms.repeat, self._devices.now_s()
        objection = policy.objection(asked.request.query.fields_used) or policy.too_early(repeat)
        if objection is not None:
            return objection
        if now_s >= study.terms.expires_unix_s:
            return Refusal(Reason.EXPIRED, "expected a study that has not expired")
        return off_epoch(repeat, asked.request.epoch, now_s // SECONDS_PER_DAY) or asked


def _digests(round_: Round) -> tuple[bytes, ...]:
    """Return a round's name: other epochs of the study have rounds of the same number."""
    return tuple(group.digest for group in round_.groups)


class _Folded:
    """Tally of one group, as its shards come in."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._sums: dict[int, Sums] = {}  # by their number: a worker may have no kernels
        self._tree = MerkleTree()

    def add(self, result: ShardResult, place: int) -> None:
        sums = result.sums[place]
        if sums is not None:
            before = self._sums.get(len(sums))
            self._sums[len(sums)] = sums if before is None else before + sums
        for leaf in result.leaves[place]:
            self._tree.add(leaf)

    def tally(self, users: _Users, place: int) -> Tally:
        reasons: Counter[Reason | None] = Counter()
        reused = 0
        for said, count in users.items():
            ours = [one for one in said if one.group == place]
            reasons.update({one.refused: count for one in ours})
            reused += count * sum(one.refused is None and not one.charged for one in ours)
        answered = reasons.pop(None, 0)
        randomizer = self._group.randomizer
        counts = family_of(randomizer).tally(np.zeros((0, randomizer.width), np.uint8))
        for sums in self._sums.values():
            counts = counts + counts_of(randomizer, sums)
        return Tally(
            counts=tuple(counts.tolist()),
            answered=answered,
            asked=self._group.cohort.size,
            root=self._tree.root,
            refusals=tuple(sorted((why, count) for why, count in reasons.items() if why)),
            reused=reused,
            salted=True,
        )


def _confirm(round_: Round, accounts: Accounts, users: _Users) -> None:
    """Record users' responses, once for all requests of the round to the same cohort."""
    for said, count in users.items():
        cohorts: dict[Cohort, list[ClassResponse]] = {}
        for one in said:
            cohorts.setdefault(round_.groups[one.group].cohort, []).append(one)
        for cohort, ones in cohorts.items():
            charged, spent = sum(one.charged for one in ones), max(one.spent for one in ones)
            accounts.of(cohort).confirm_alike(count, charged, spent)


def _meet(one: Cohort, other: Cohort) -> bool:
    """Return whether two cohorts may have users in common."""
    if one.permutation != other.permutation:
        return True
    return one.start < other.stop and other.start < one.stop
