"""The operator's side: calls of tools that watch an aggregator and manage its devices.

`calls` and `wire` are shared by both ends; `client` makes the calls over an analyst's connection,
which has the same channel, keys and tokens (`analyst.connect`). Nothing here shows an estimate.
"""

from askance_aggregator.operators.calls import OperatorCall
from askance_aggregator.operators.client import OperatorClient
from askance_aggregator.operators.fleet_wire import (
    CostBin,
    FailureCount,
    FleetFigures,
    RoundFigures,
)
from askance_aggregator.operators.wire import AuditPage, CallerIdentity, StudyProgress

__all__ = [
    "AuditPage",
    "CallerIdentity",
    "CostBin",
    "FailureCount",
    "FleetFigures",
    "OperatorCall",
    "OperatorClient",
    "RoundFigures",
    "StudyProgress",
]
