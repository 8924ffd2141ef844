"""Deletion of ended studies' reports and results as rows."""

from __future__ import annotations

from typing import Any

from askance_aggregator.store.dialect import Dialect, Execute, first_row, list_rows
from askance_aggregator.store.retention import KeptStudy, not_ended

_KEPT = (
    "SELECT digest, ended_unix_s, reports_deleted_unix_s, results_deleted_unix_s, rows_left"
    " FROM retention JOIN studies ON studies.number = retention.study"
)
_NOTE = (
    "INSERT INTO retention (study, ended_unix_s) SELECT study, ? FROM conclusions WHERE epoch = 0"
)


class RetentionRows:
    """Deletion in a database (see `Retention`)."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def note_ends(self, now_s: int) -> int:
        def step(execute: Execute) -> int:
            return execute(f"{_NOTE} ON CONFLICT DO NOTHING", (now_s,)).rowcount

        return self._dialect.write(step)

    def kept(self) -> list[KeptStudy]:
        rows = list_rows(self._dialect, f"{_KEPT} ORDER BY ended_unix_s, studies.number")
        return [_kept(row) for row in rows]

    def of(self, digest: bytes) -> KeptStudy | None:
        row = first_row(self._dialect, f"{_KEPT} WHERE digest = ?", (digest,))
        return None if row is None else _kept(row)

    def delete_reports(self, digest: bytes, now_s: int) -> None:
        self._dialect.write(lambda execute: self._mark(execute, digest, now_s))

    def remove_rows(self, digest: bytes, most: int) -> int:
        return self._dialect.remove_reports(digest, most)

    def delete_results(self, digest: bytes, now_s: int) -> None:
        def step(execute: Execute) -> None:
            study = self._mark(execute, digest, now_s)
            execute("DELETE FROM transcript_lines WHERE study = ?", (study,))
            execute("UPDATE conclusions SET result_json = '' WHERE study = ?", (study,))
            execute("DELETE FROM tagged_populations WHERE study = ?", (digest,))
            execute(
                "UPDATE retention SET results_deleted_unix_s ="
                " coalesce(results_deleted_unix_s, ?) WHERE study = ?",
                (now_s, study),
            )

        self._dialect.write(step)

    def _mark(self, execute: Execute, digest: bytes, now_s: int) -> int:
        """Note that a study's reports are deleted, and return its number."""
        rows = execute(
            "SELECT number FROM studies JOIN conclusions ON conclusions.study = studies.number"
            " WHERE digest = ? AND epoch = 0",
            (digest,),
        ).fetchall()
        if not rows:
            raise not_ended(digest)
        study = int(rows[0][0])
        execute(f"{_NOTE} AND study = ? ON CONFLICT DO NOTHING", (now_s, study))
        marked = execute(
            "UPDATE retention SET reports_deleted_unix_s = ?, rows_left = true"
            " WHERE study = ? AND reports_deleted_unix_s IS NULL",
            (now_s, study),
        )
        if marked.rowcount:
            self._dialect.refuse_reports(execute, study)
        execute("DELETE FROM study_users WHERE study = ?", (digest,))
        return study


def _kept(row: Any) -> KeptStudy:
    digest, ended, reports_deleted, results_deleted, rows_left = row
    return KeptStudy(digest, ended, reports_deleted, results_deleted, bool(rows_left))
