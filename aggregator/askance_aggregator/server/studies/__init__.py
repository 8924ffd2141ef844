"""Submitted studies: checked, run and concluded.

Its rules: a study is checked whole before it is accepted, and is durable before its analyst is
answered. It runs in a thread of its own, a session over the service's devices, and what it needs to
go on is in the store: after a crash every open study is replayed from its transcript and continued.
A repeated study is one collection per epoch, each begun by the aggregator's own clock in its days;
an epoch that ended is never asked again, and one that no aggregator ran is noted as missed.
It ends once, and its end is durable before it is reported. A disk that fails ends no study: it is
tried again, and the devices wait. An analyst sees its own studies and no others.

`submissions` checks what may be submitted, `approvals` what an approver decides, `manager` manages
the studies, `runs` runs one, `epochs` has the days of a repeated one, `collector` deletes what
ended ones left when it is due, and `outer_statements` keeps the account of what was published.
"""

from askance_aggregator.server.studies.approvals import (
    ApprovalRefused,
    ApprovalStanding,
    Approver,
    standing_of_approver,
)
from askance_aggregator.server.studies.collector import KEEP_ALL, Collected, Collector, KeepLimits
from askance_aggregator.server.studies.manager import (
    ResultsDeleted,
    StudyManager,
    UnknownEpoch,
    UnknownStudy,
)
from askance_aggregator.server.studies.outer_statements import OuterCounter
from askance_aggregator.server.studies.statuses import StudyStatus, population_status
from askance_aggregator.server.studies.submissions import SubmissionLimits
from askance_aggregator.studies.submitted import SubmissionRefused

__all__ = [
    "KEEP_ALL",
    "ApprovalRefused",
    "ApprovalStanding",
    "Approver",
    "Collected",
    "Collector",
    "KeepLimits",
    "OuterCounter",
    "ResultsDeleted",
    "StudyManager",
    "StudyStatus",
    "SubmissionLimits",
    "SubmissionRefused",
    "UnknownEpoch",
    "UnknownStudy",
    "population_status",
    "standing_of_approver",
]
