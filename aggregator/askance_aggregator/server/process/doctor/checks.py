"""Registry of checks, and the form of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from askance_aggregator.server.process.configuration import Configuration
from askance_aggregator.store import StoreFacts
from askance_client.errors import AskanceError
from askance_client.printable import printable


class CheckState(Enum):
    """State of a check; the values are the words of its line and of its JSON."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check.

    Args:
      state: FAIL if the aggregator would not serve, or would serve wrongly.
      text: what was found, in a line.
      help: what to do, in a line; empty if the state is OK.
    """

    check: str
    state: CheckState
    text: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """Verdict of a check: a state, a line, and advice in place of its registered one."""

    state: CheckState
    text: str
    help: str = ""


@dataclass(frozen=True)
class Surroundings:
    """Inputs of the checks.

    Args:
      now_s: this machine's clock, in seconds since 1970.
      descriptors: most files that the process may open; None: no limit.
      monotonic_s: a clock that is never set, for durations.
    """

    configuration: Configuration
    path: Path
    now_s: Callable[[], float]
    descriptors: int | None
    monotonic_s: Callable[[], float]

    @cached_property
    def store(self) -> StoreFacts:
        """State of the store, read once.

        Raises:
          StoreError: none there, not a store, or not reachable.
        """
        return self.configuration.store.inspect(self.now_s)

    @property
    def store_if_known(self) -> StoreFacts | None:
        """State of the store; None if it cannot be read, which the check `store` reports."""
        try:
            return self.store
        except AskanceError:
            return None


Check: TypeAlias = Callable[[Surroundings], "CheckVerdict | None"]


@dataclass(frozen=True, slots=True)
class RegisteredCheck:
    """A check with its name and its advice."""

    name: str
    advice: str
    run: Check

    def result(self, surroundings: Surroundings) -> CheckResult | None:
        """Run the check; an error is its failure. None if there is nothing to check."""
        try:
            verdict = self.run(surroundings)
        except AskanceError as error:
            verdict = failed(" ".join(str(error).split()))
        except OSError as error:
            where = "" if error.filename is None else f"{error.filename}: "
            verdict = failed(f"{where}{error.strerror or type(error).__name__}")
        if verdict is None:
            return None
        advice = "" if verdict.state is CheckState.OK else verdict.help or self.advice
        return CheckResult(self.name, verdict.state, printable(verdict.text), printable(advice))


CHECKS: dict[str, RegisteredCheck] = {}
"""Registered checks by name."""


def check(name: str, advice: str) -> Callable[[Check], Check]:
    """Register a check.

    Args:
      name: in its line and JSON.
      advice: one line of help for a result that is not OK and has none of its own.
    """

    def register(run: Check) -> Check:
        CHECKS[name] = RegisteredCheck(name, advice, run)
        return run

    return register


def passed(text: str) -> CheckVerdict:
    """Return the verdict on something that is in order."""
    return CheckVerdict(CheckState.OK, text)


def warned(text: str, advice: str = "") -> CheckVerdict:
    """Return the verdict on something that an operator should change soon."""
    return CheckVerdict(CheckState.WARN, text, advice)


def failed(text: str, advice: str = "") -> CheckVerdict:
    """Return the verdict on something with which the aggregator does not work."""
    return CheckVerdict(CheckState.FAIL, text, advice)
