"""Checks of an aggregator's surroundings before it serves, or while it does.

Nothing is changed but a probe file that is removed again, and nothing is held. A check is a small
function that is registered with its name and a line of advice (`checks`); the modules beside
register theirs, and `examine` runs all of them.
"""

from askance_aggregator.server.process.doctor.checks import (
    CheckResult,
    CheckState,
    Surroundings,
)
from askance_aggregator.server.process.doctor.examination import examine, results_json

__all__ = ["CheckResult", "CheckState", "Surroundings", "examine", "results_json"]
