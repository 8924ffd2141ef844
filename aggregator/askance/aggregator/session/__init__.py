"""A study being run: batches in, tallies out, and a transcript of everything in between.

Theory of operation. A learner yields a batch. The planner turns it into groups: a query, a
randomizer and a range of a seeded permutation of the users. The batch is written to the transcript,
every member's account is charged, and only then is the fleet asked. What comes back passes one
intake, whatever fleet it came from, and is kept as integer counts and a Merkle root, never as a
sum of floats; so the same seed, population and study give the same transcript on every fleet. After
a crash the learner is run again over the recorded counts and goes on.
"""

from askance.aggregator.session.accounts import Accounts, Spending
from askance.aggregator.session.bounds import AnswerBounds
from askance.aggregator.session.cohorts import Cohort, Permutation
from askance.aggregator.session.composed import charges_asked, composed
from askance.aggregator.session.fleet import Fleet
from askance.aggregator.session.intake import Intake
from askance.aggregator.session.local import LocalOracle
from askance.aggregator.session.rounds import Group, Round
from askance.aggregator.session.session import Outcome, Session
from askance.aggregator.session.tallies import SymbolSheet, Tally
from askance.aggregator.session.transcript import MemoryLog, Transcript, TranscriptLog

__all__ = [
    "Accounts",
    "AnswerBounds",
    "Cohort",
    "Fleet",
    "Group",
    "Intake",
    "LocalOracle",
    "MemoryLog",
    "Outcome",
    "Permutation",
    "Round",
    "Session",
    "Spending",
    "SymbolSheet",
    "Tally",
    "Transcript",
    "TranscriptLog",
    "charges_asked",
    "composed",
]
