"""Checks of reports, the same for every fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import compress
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.rounds import Group, Round
from askance_aggregator.studies.tallies import Places, SymbolTable, Tally, Where, count_of
from askance_client.codec import decode_report
from askance_client.errors import RemoteProtocolError
from askance_client.exact_laws import valid
from askance_client.messages import AckStatus, Reason, Refusal, Report
from askance_client.randomizers import Randomizer

_MAX_SEQUENCE = (1 << 63) - 1  # no ledger numbers further, and no store keeps more
_MAX_SPENT = 1 << 62  # a total that no ledger can hold is a lie, and would overflow the accounts
_SHORT_SYMBOL = 8  # bytes of a symbol that is looked at once per round
_SHORT = 128  # bytes of a report that others are likely to send as well, or to be read again
_SEQUENCE_TAG = 6 << 3  # of the field of a report's sequence number, a varint
_SEQUENCE_BYTES = 9  # at most, of a number up to `_MAX_SEQUENCE`

# Symbols are few: most reports of a round equal another user's, byte for byte. Replicas read what
# they have stored themselves once more.
_decoded = lru_cache(maxsize=1 << 14)(decode_report)


def decoded(data: bytes) -> Report:
    """Decode a report; equal short ones are decoded once."""
    return _decoded(data) if len(data) <= _SHORT else decode_report(data)


def without_sequence(data: bytes) -> tuple[bytes, int]:
    """Split off the sequence number with which a short report ends, as devices write it."""
    # A serialised message followed by a field is that message with that field. So if the first part
    # is a report, `data` is the same report with the sequence number, wherever it was split.
    # Reports differ in the number where they are equal otherwise. Without the field, the number is
    # 0.
    if not 2 < len(data) <= _SHORT or data[-1] > 127:
        return data, 0
    number, place = data[-1], len(data) - 2
    while data[place] > 127 and place > 0:
        number = number << 7 | data[place] & 127
        place -= 1
    if data[place] != _SEQUENCE_TAG or len(data) - place > _SEQUENCE_BYTES + 1:
        return data, 0
    return data[:place], number


@dataclass(frozen=True, slots=True, eq=False)
class CheckedReports:
    """Reports to different requests, one or more, that passed the checks for any of their cohort.

    Args:
      cohort: number of the cohort that is asked the requests.
      groups: numbers of the reports' groups, all different.
      answers: number of the reports that are answers.
      refusals: reasons of the others.
      charged: sum of the reports' charges, nano-nats.
      digests: of the requests that the reports answer.
      accepted: the acknowledgements, if all of them are new.
    """

    cohort: int
    groups: tuple[int, ...]
    reports: tuple[Report, ...]
    answers: int
    refusals: tuple[Reason, ...]
    charged: int
    digests: tuple[bytes, ...]
    accepted: tuple[tuple[bytes, AckStatus], ...]

    @classmethod
    def of(cls, cohort: int, groups: tuple[int, ...], reports: tuple[Report, ...]) -> Self:
        """Return reports with what follows from them."""
        refusals = tuple(r.outcome.reason for r in reports if isinstance(r.outcome, Refusal))
        return cls(
            cohort=cohort,
            groups=groups,
            reports=reports,
            answers=len(reports) - len(refusals),
            refusals=refusals,
            charged=sum(report.charged_nano_nats for report in reports),
            digests=tuple(report.request_digest for report in reports),
            accepted=tuple((report.request_digest, AckStatus.ACCEPTED) for report in reports),
        )

    def only(self, chosen: Iterable[bool]) -> CheckedReports:
        """Return the reports for which `chosen` has True."""
        pairs = tuple(compress(zip(self.groups, self.reports, strict=True), chosen))
        groups, reports = tuple(g for g, _ in pairs), tuple(r for _, r in pairs)
        return CheckedReports.of(self.cohort, groups, reports)


class Intake:
    """Checks and counts the reports of one round.

    `check` is pure; `add` counts. Between the two a service makes the reports durable. A report
    counts once, however often it is added.
    """

    def __init__(self, round_: Round, accounts: Accounts) -> None:
        self._round = round_
        self._tables = tuple(SymbolTable(group) for group in round_.groups)
        cohorts = dict.fromkeys(group.cohort for group in round_.groups)
        numbers = {cohort: number for number, cohort in enumerate(cohorts)}
        self._cohort_places = tuple(Places(cohort.members) for cohort in cohorts)
        self._cohorts = tuple(numbers[group.cohort] for group in round_.groups)
        self._heard = tuple(np.zeros(cohort.size, np.bool_) for cohort in cohorts)
        self._places = tuple(self._cohort_places[cohort] for cohort in self._cohorts)
        self._accounts = tuple(accounts.of(group.cohort) for group in round_.groups)
        self.open = sum(table.open for table in self._tables)  # answers still missing
        self._groups = {group.digest: number for number, group in enumerate(round_.groups)}
        self._valid = tuple(_validity(group.randomizer) for group in round_.groups)

    @property
    def complete(self) -> bool:
        """True if every member of every group has answered or refused."""
        return self.open == 0

    def owes_all(self, ordinal: int) -> bool:
        """Return whether this user is a member of every group and was not heard yet."""
        if len(self._cohort_places) != 1:  # members of one group are not all in the others
            return False
        place = self._cohort_places[0].of(ordinal)
        return place is not None and not self._heard[0][place]

    def users(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the users that are asked, and those of them who owe an answer; both sorted.

        May be called from any thread, while reports are counted in another.
        """
        members = [places.members for places in self._places]
        owing = [
            places.members[table.open_places()]
            for places, table in zip(self._places, self._tables, strict=True)
        ]
        none = np.empty(0, np.int64)
        return np.unique(np.concatenate([none, *members])), np.unique(
            np.concatenate([none, *owing])
        )

    def owes(self, ordinal: int) -> list[Group]:
        """The groups whose request this user has neither answered nor refused."""
        owed = []
        for group, table, places in zip(
            self._round.groups, self._tables, self._places, strict=True
        ):
            index = places.of(ordinal)
            if index is not None and not table.settled(index):
                owed.append(group)
        return owed

    def check(self, reports_data: tuple[bytes, ...]) -> CheckedReports | AckStatus:
        """Check reports to different requests: of this round, of one cohort, in the alphabet.

        Returns:
          The reports, to be counted for any user of their cohort. UNKNOWN: one answers no request
          of this round. MALFORMED: one is wrong, or two are for one request or of two cohorts,
          which may be right alone.
        """
        try:
            reports = tuple(map(decoded, reports_data))
        except RemoteProtocolError:
            return AckStatus.MALFORMED
        groups = tuple(self._groups.get(report.request_digest, -1) for report in reports)
        if min(groups) < 0:
            return AckStatus.UNKNOWN
        cohorts = {self._cohorts[group] for group in groups}
        if len(cohorts) != 1 or len(set(groups)) < len(groups):
            return AckStatus.MALFORMED
        if not all(map(self._plausible, reports, groups)):
            return AckStatus.MALFORMED
        return CheckedReports.of(cohorts.pop(), groups, reports)

    def place(self, reports: CheckedReports, ordinal: int) -> int | None:
        """Return the position of a user in the cohort of reports; None: it is not a member."""
        return self._cohort_places[reports.cohort].of(ordinal)

    def places(
        self, reports: CheckedReports, ordinals: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of these users are in the cohort of reports, and their positions in it."""
        return self._cohort_places[reports.cohort].find(ordinals)

    @overload
    def add(self, reports: CheckedReports, where: int) -> int: ...
    @overload
    def add(self, reports: CheckedReports, where: NDArray[np.int64]) -> NDArray[np.int64]: ...

    def add(self, reports: CheckedReports, where: Where) -> Where:
        """Count reports for users who sent them; what is settled already is left as it is.

        `where` has the users' positions in the cohort of the reports; each of them sent all of the
        reports. Returned is the number of reports that were counted now, per user.
        """
        account = self._accounts[reports.groups[0]]
        counted: Where = 0 if isinstance(where, int) else np.zeros(len(where), np.int64)
        for group, report in zip(reports.groups, reports.reports, strict=True):
            table = self._tables[group]
            lacks = table.lacks(where)
            if lacks is False:
                continue
            new = where if isinstance(where, int) else where[lacks]
            outcome, charged = report.outcome, report.charged_nano_nats
            if isinstance(outcome, Refusal):
                table.refuse(new, outcome.reason)
            else:
                table.write(new, outcome, reused=not charged)
            account.confirm(new, charged, report.spent_nano_nats)
            self.open -= count_of(new)
            counted = counted + lacks
        self._heard[reports.cohort][where] = True
        return counted

    def answers(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """Return for each group who answered, and who of them had before (see `SymbolTable`)."""
        return tuple(table.answers() for table in self._tables)

    def tallies(self) -> tuple[Tally, ...]:
        """Close the round."""
        return tuple(table.tally() for table in self._tables)

    def _plausible(self, report: Report, number: int) -> bool:
        charged = report.charged_nano_nats
        if report.spent_nano_nats > _MAX_SPENT or charged > report.spent_nano_nats:
            return False
        if report.sequence > _MAX_SEQUENCE:
            return False
        outcome = report.outcome
        if isinstance(outcome, Refusal):
            return charged == 0
        # Whatever a device says it was charged, this randomizer never costs more than its loss.
        return charged <= self._round.groups[number].nano_nats and self._valid[number](outcome)


def _validity(randomizer: Randomizer) -> Callable[[bytes], bool]:
    """Return a randomizer's check of a symbol, which looks at each short symbol once."""
    if randomizer.width > _SHORT_SYMBOL:
        return partial(valid, randomizer)
    width, checked = randomizer.width, lru_cache(maxsize=1 << 12)(partial(valid, randomizer))
    return lambda symbol: len(symbol) == width and checked(symbol)  # no long symbol is kept
