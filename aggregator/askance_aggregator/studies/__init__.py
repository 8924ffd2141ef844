"""A study being run: batches in, tallies out, and a transcript of everything in between.

Theory of operation. A learner yields a batch. The planner turns it into groups: a query, a
randomizer and a range of a seeded permutation of the users. The batch is written to the transcript,
every member's account is charged, and only then is the fleet asked. What comes back passes one
intake, whatever fleet it came from, and is kept as integer counts and a Merkle root, never as a
sum of floats; so the same seed, population and study give the same transcript on every fleet. After
a crash the learner is run again over the recorded counts and continues.
"""

from askance_aggregator.studies.accounts import Accounts, Spending
from askance_aggregator.studies.cohorts import Cohort, Permutation
from askance_aggregator.studies.composed import charges_asked, composed
from askance_aggregator.studies.course import Course, OwnerBudgets
from askance_aggregator.studies.fleet import Fleet
from askance_aggregator.studies.intake import Intake
from askance_aggregator.studies.local import LocalOracle
from askance_aggregator.studies.rounds import Group, Round
from askance_aggregator.studies.session import Outcome, Session
from askance_aggregator.studies.tallies import SymbolTable, Tally
from askance_aggregator.studies.transcript import REPORTED, MemoryLog, Transcript, TranscriptLog

__all__ = [
    "REPORTED",
    "Accounts",
    "Cohort",
    "Course",
    "Fleet",
    "Group",
    "Intake",
    "LocalOracle",
    "MemoryLog",
    "Outcome",
    "OwnerBudgets",
    "Permutation",
    "Round",
    "Session",
    "Spending",
    "SymbolTable",
    "Tally",
    "Transcript",
    "TranscriptLog",
    "charges_asked",
    "composed",
]
