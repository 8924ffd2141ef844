"""The analyst's side: studies written down, signed, submitted, watched, and checked afterwards.

Its rules: an analyst's key never leaves the analyst; every call about a study is signed by the key
that signed the study, and another analyst's study is an unknown one. What is signed is enough to
build the learner again, so that the aggregator decides nothing that the analyst did not sign. What
an aggregator says is not believed where it can be computed: an export is replayed offline.

Theory of operation. `definitions` reads a study from TOML; `submission` signs it with the
registry's text for its learner. `messages` checks what travels and `calls` signs it, for both ends:
`client` calls and `server.services` answers. `export` is a study in one file, and `verification`
runs the learner over it again, with a fleet that can only remember, for every epoch of a repeated
study.
"""

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.analyst.client import Aggregator, StudyHandle, connect
from askance_aggregator.analyst.definitions import definition_of_table, read_definition
from askance_aggregator.analyst.export import StudyExport
from askance_aggregator.analyst.keys import AnalystKey, create_key, load_key, public_hex
from askance_aggregator.analyst.messages import StudyEvent, StudySummary, epochs_of, state_of
from askance_aggregator.analyst.results import StudyResult
from askance_aggregator.analyst.submission import StudyDefinition, sign_submission
from askance_aggregator.analyst.verification import (
    Verification,
    VerificationFailed,
    verify,
    verify_export,
    verify_series,
)

__all__ = [
    "Aggregator",
    "AnalystKey",
    "CallRefused",
    "StudyDefinition",
    "StudyEvent",
    "StudyExport",
    "StudyHandle",
    "StudyResult",
    "StudySummary",
    "Verification",
    "VerificationFailed",
    "connect",
    "create_key",
    "definition_of_table",
    "epochs_of",
    "load_key",
    "public_hex",
    "read_definition",
    "sign_submission",
    "state_of",
    "verify",
    "verify_export",
    "verify_series",
]
