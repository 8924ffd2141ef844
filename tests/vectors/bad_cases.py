"""Messages that must be refused: bytes, the kind of error, and a part of its text."""

from __future__ import annotations

from tests.vectors import bad_exchanges, bad_questions

BAD = {
    "schema": bad_questions.schemas,
    "query": bad_questions.queries,
    "randomizer": bad_questions.randomizers,
    "study": bad_exchanges.studies,
    "signed_study": bad_exchanges.signed_studies,
    "request": bad_exchanges.bad_requests,
    "report": bad_exchanges.reports,
    "check_in": bad_exchanges.check_ins,
    "response": bad_exchanges.responses,
}
