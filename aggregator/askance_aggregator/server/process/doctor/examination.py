"""Examination: every registered check, in the order in which an operator would mend them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from askance_aggregator.server.process.configuration import Configuration
from askance_aggregator.server.process.doctor import file_checks, reached_checks
from askance_aggregator.server.process.doctor.checks import (
    CHECKS,
    CheckResult,
    CheckState,
    Surroundings,
)
from askance_client.errors import AskanceError
from askance_client.printable import printable

_MODULES = (file_checks, reached_checks)  # register their checks
_CORRECT = "correct the file; `askance aggregator init` writes one with every key explained"


def examine(
    path: Path,
    read: Callable[[], Configuration],
    *,
    now_s: Callable[[], float],
    descriptors: int | None,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> list[CheckResult]:
    """Run all checks in their surroundings (see `Surroundings`).

    `read` reads the configuration, with the options of the command line in place.

    Returns:
      A result per check. A check that has nothing to look at has none: of a certificate without
      TLS, of a schema in a database that is not reached. An unreadable configuration is the only
      result.
    """
    try:
        configuration = read()
    except (AskanceError, OSError) as error:
        text = printable(" ".join(str(error).split()))
        return [CheckResult("configuration", CheckState.FAIL, text, _CORRECT)]
    surroundings = Surroundings(configuration, path, now_s, descriptors, monotonic_s)
    results = (registered.result(surroundings) for registered in CHECKS.values())
    return [
        CheckResult("configuration", CheckState.OK, printable(str(path))),
        *(result for result in results if result is not None),
    ]


def results_json(results: Iterable[CheckResult]) -> dict[str, Any]:
    """Return one JSON object: `ok` is False if a check failed; warnings leave it True."""
    listed = list(results)
    return {
        "ok": all(result.state is not CheckState.FAIL for result in listed),
        "checks": [
            {
                "check": result.check,
                "state": result.state.value,
                "text": result.text,
                "help": result.help,
            }
            for result in listed
        ],
    }
