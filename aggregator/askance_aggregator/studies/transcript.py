"""Append-only record of a study: its requests and their tallies.

A line is one JSON object with sorted keys, holding integers, strings and hexadecimal bytes only: no
float, no time, no name of a fleet, no count of workers. The digest is SHA-256 over the lines, so
two runs agree to the bit or they do not agree. A crash loses at most what was never acknowledged:
the log is written before a request is sent, and again when a round closes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.report import CommandReport, Grid, Part, more_rows, shown_rows
from askance_aggregator.reports.texts import counted
from askance_aggregator.studies.tallies import Tally
from askance_client.errors import StoreError
from askance_client.messages import Reason

FORMAT = "askance transcript v2"
REPORTED = "reported"
"""Kind of a transcript whose tallies are of devices' reports."""


class TranscriptLog(Protocol):
    """Storage of a transcript's lines; `append` returns when the line is durable."""

    def append(self, line: str) -> None:
        """Append a line; it is durable when this returns."""
        ...

    def lines(self) -> Iterator[str]:
        """Return the lines, in order."""
        ...


class MemoryLog:
    """A transcript that lasts as long as its process."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def append(self, line: str) -> None:
        self._lines.append(line)

    def lines(self) -> Iterator[str]:
        return iter(tuple(self._lines))


@dataclass(frozen=True, slots=True)
class Header:
    """Facts fixed before the first question.

    beta sizes every round, and the intervals that a learner sees have this confidence. `epoch` is
    the index of the epoch; 0: the study collects once. `tallies` is REPORTED, or says how else they
    came about: such a transcript is no record of devices, and its digest has another prefix.
    """

    study_digest: bytes
    learner: str
    learner_version: int
    population: int
    cohort_seed: bytes
    beta: Fraction
    confidence: Fraction
    epoch: int = 0
    tallies: str = REPORTED


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """A group as recorded: the payload that is sent, and the positions it goes to.

    Where a table was designed with decode values, they are recorded too: what designs tables may
    come to slightly others in a later version, and a replay must not.
    """

    payload: bytes
    question: int
    start: int
    stop: int
    nano_nats: int
    decode: tuple[Fraction, ...] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Round as recorded before a request is sent; `questions` are encoded queries."""

    round: int
    questions: tuple[bytes, ...]
    allocation: str
    groups: tuple[AskedGroup, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """A round's tallies as recorded when it closed."""

    round: int
    tallies: tuple[Tally, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a study whose learner asked more than was planned and signed.

    `round` would have passed the plan, in the part that `message` names, and was not asked; `asked`
    users were asked in the rounds before, and stay charged.
    """

    round: int
    asked: int
    message: str


Event = Header | Asked | Closed | Stopped


class Transcript:
    """A study's events, written through to a log and read back from it.

    Raises:
      StoreError: the log holds something that is no transcript of this format.
    """

    def __init__(self, log: TranscriptLog) -> None:
        self._log = log
        self._hash = hashlib.sha256()
        self._recorded: list[Event] = []
        for number, line in enumerate(log.lines(), start=1):
            self._recorded.append(_parse(line, number))
            self._hash.update(line.encode() + b"\n")

    @property
    def recorded(self) -> tuple[Event, ...]:
        """The events so far, oldest first."""
        return tuple(self._recorded)

    @property
    def digest(self) -> str:
        """`sha256:` and the hash over all lines so far; `simulated-sha256:` without reports."""
        first = self._recorded[0] if self._recorded else None
        reported = not isinstance(first, Header) or first.tallies == REPORTED
        return ("sha256:" if reported else "simulated-sha256:") + self._hash.hexdigest()

    def __repr__(self) -> str:
        rounds = [event for event in self._recorded if isinstance(event, Closed)]
        answers = sum(tally.answered for round_ in rounds for tally in round_.tallies)
        figures = [counted(len(rounds), "round"), counted(answers, "answer"), self.digest[:23]]
        return line_of("Transcript", ", ".join([self._name, *figures]))

    def _repr_html_(self) -> str:
        """Show users, answers and charges by round in a notebook."""
        grid = Grid(("round", "questions", "users", "answers", "refusals", "nats at most"))
        closed = {event.round: event for event in self._recorded if isinstance(event, Closed)}
        asked = [event for event in self._recorded if isinstance(event, Asked)]
        for place in shown_rows(len(asked), every=False):
            event = asked[place]
            done = closed.get(event.round)
            tallies = () if done is None else done.tallies
            charged: Counter[tuple[int, int]] = Counter()  # of the users of one cohort
            for group in event.groups:
                charged[group.start, group.stop] += group.nano_nats
            grid.add_row(
                str(event.round + 1),
                str(len(event.questions)),
                f"{sum(stop - start for start, stop in charged):,}",
                "open" if done is None else f"{sum(tally.answered for tally in tallies):,}",
                f"{sum(count for tally in tallies for _, count in tally.refusals):,}",
                f"{max(charged.values(), default=0) / 10**9:.9g}",
            )
        stopped = [event.message for event in self._recorded if isinstance(event, Stopped)]
        body: list[Part] = [grid, *more_rows(len(asked), len(grid.rows))]
        return html_of(CommandReport(f"transcript of {self._name}", body, self.digest, "", stopped))

    @property
    def _name(self) -> str:
        """Learner that the header names; a transcript without events has none."""
        first = self._recorded[0] if self._recorded else None
        return first.learner if isinstance(first, Header) else "no study"

    def append(self, event: Event) -> None:
        """Record an event; durable when this returns."""
        line = json.dumps(_plain(event), sort_keys=True, separators=(",", ":"))
        self._log.append(line)
        self._hash.update(line.encode() + b"\n")
        self._recorded.append(event)


def _plain(event: Event) -> dict[str, Any]:
    match event:
        case Header():
            header = {
                "kind": "header",
                "format": FORMAT,
                "study": event.study_digest.hex(),
                "learner": event.learner,
                "learner_version": event.learner_version,
                "population": event.population,
                "cohort_seed": event.cohort_seed.hex(),
                "beta": str(event.beta),
                "confidence": str(event.confidence),
            }
            epoch = {"epoch": event.epoch} if event.epoch else {}
            kind = {"tallies": event.tallies} if event.tallies != REPORTED else {}
            return header | epoch | kind
        case Asked():
            return {
                "kind": "asked",
                "round": event.round,
                "questions": [question.hex() for question in event.questions],
                "allocation": event.allocation,
                "groups": [_plain_group(group) for group in event.groups],
            }
        case Closed():
            return {
                "kind": "closed",
                "round": event.round,
                "tallies": [_plain_tally(tally) for tally in event.tallies],
            }
        case Stopped():
            return {
                "kind": "stopped",
                "round": event.round,
                "asked": event.asked,
                "message": event.message,
            }


def _plain_group(group: AskedGroup) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "payload": group.payload.hex(),
        "question": group.question,
        "start": group.start,
        "stop": group.stop,
        "nano_nats": group.nano_nats,
    }
    if group.decode is not None:
        plain["decode"] = [str(value) for value in group.decode]
    return plain


def _plain_tally(tally: Tally) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "counts": list(tally.counts),
        "answered": tally.answered,
        "asked": tally.asked,
        "root": tally.root.hex(),
        "refusals": {str(int(why)): count for why, count in tally.refusals},
    }
    if tally.reused:
        plain["reused"] = tally.reused
    if tally.salted:
        plain["salted"] = True
    return plain


def _parse(line: str, number: int) -> Event:
    try:
        item = json.loads(line)
        match item["kind"]:
            case "header":
                return _parse_header(item, number)
            case "asked":
                return _parse_asked(item)
            case "closed":
                return _parse_closed(item)
            case "stopped":
                return Stopped(item["round"], item["asked"], item["message"])
            case kind:
                raise StoreError(
                    f"transcript: expected a known event at line {number}, found {kind!r}"
                )
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise StoreError(
            f"transcript: expected an event of {FORMAT!r} at line {number}, found another: {error}"
        ) from None


def _parse_header(item: dict[str, Any], number: int) -> Header:
    if item["format"] != FORMAT:
        raise StoreError(
            f"transcript: expected the format {FORMAT!r} at line {number}, found {item['format']!r}"
        )
    return Header(
        study_digest=bytes.fromhex(item["study"]),
        learner=item["learner"],
        learner_version=item["learner_version"],
        population=item["population"],
        cohort_seed=bytes.fromhex(item["cohort_seed"]),
        beta=Fraction(item["beta"]),
        confidence=Fraction(item["confidence"]),
        epoch=item.get("epoch", 0),
        tallies=item.get("tallies", REPORTED),
    )


def _parse_asked(item: dict[str, Any]) -> Asked:
    return Asked(
        round=item["round"],
        questions=tuple(bytes.fromhex(question) for question in item["questions"]),
        allocation=item["allocation"],
        groups=tuple(
            AskedGroup(
                payload=bytes.fromhex(group["payload"]),
                question=group["question"],
                start=group["start"],
                stop=group["stop"],
                nano_nats=group["nano_nats"],
                decode=_parse_decode(group["decode"]) if "decode" in group else None,
            )
            for group in item["groups"]
        ),
    )


def _parse_decode(texts: list[str]) -> tuple[Fraction, ...]:
    """Fractions as text; a number that is not text may have been rounded."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("decode values expect a list of texts")
    return tuple(Fraction(text) for text in texts)


def _parse_closed(item: dict[str, Any]) -> Closed:
    return Closed(
        round=item["round"],
        tallies=tuple(
            Tally(
                counts=tuple(tally["counts"]),
                answered=tally["answered"],
                asked=tally["asked"],
                root=bytes.fromhex(tally["root"]),
                refusals=tuple(
                    sorted((Reason(int(why)), count) for why, count in tally["refusals"].items())
                ),
                reused=tally.get("reused", 0),
                salted=tally.get("salted", False) is True,
            )
            for tally in item["tallies"]
        ),
    )
