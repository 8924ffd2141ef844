"""A sweep's file is the truth: a killed sweep goes on, and no other one's file is touched."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from askance_client.errors import AskanceError, InvalidParameter
from askance_simulation.experiments.sweeps import Sweep, row_file, running, sweep

GRID = {"epsilon": [1, 2], "users": [50, 80]}
LONG = {"epsilon": [1, 2], "users": [3_000, 3_001]}
LONG_TRIALS = 15


def run(out: Path, **changes: Any) -> Sweep:
    settings: dict[str, Any] = {"grid": GRID, "trials": 3} | changes
    return sweep("mean", settings.pop("grid"), out=out, **settings)


def without_seconds(rows: Any) -> list[dict[str, Any]]:
    kept = [{name: row[name] for name in row if name != "seconds"} for row in rows]
    return sorted(kept, key=lambda row: (row["cell"], row["trial"]))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


class TestGoingOn:
    def test_a_second_run_adds_nothing(self, out: Path) -> None:
        first = run(out)
        written = out.read_bytes()
        assert written.count(b"\n") == 12
        assert run(out).rows == first.rows
        assert out.read_bytes() == written

    @pytest.mark.parametrize("cut", [1, 40, 300])
    def test_a_torn_last_line_is_dropped_and_run_again(self, out: Path, cut: int) -> None:
        whole = without_seconds(run(out).rows)
        lines = out.read_bytes().splitlines(keepends=True)
        out.write_bytes(b"".join(lines[:7]) + lines[7][:cut])
        assert len(Sweep.read(out).rows) == 7, "who only reads sees the whole rows"
        assert without_seconds(run(out).rows) == whole
        assert out.read_bytes().splitlines(keepends=True)[:7] == lines[:7]
        assert len(out.read_bytes().splitlines()) == 12

    def test_a_row_is_durable_before_the_next_trial_starts(
        self, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[int] = []

        def fsync(descriptor: int) -> None:
            if os.path.samestat(os.fstat(descriptor), out.stat()):
                synced.append(out.read_bytes().count(b"\n"))

        monkeypatch.setattr(os, "fsync", fsync)
        run(out)
        assert synced == list(range(1, 13))

    def test_a_sweep_may_grow(self, out: Path) -> None:
        run(out)
        before = out.read_bytes()
        wider = {"epsilon": [1, 2, 4], "users": [50, 80]}
        grown = run(out, grid=wider, trials=4)
        assert out.read_bytes().startswith(before)
        assert without_seconds(grown.rows) == without_seconds(sweep("mean", wider, trials=4).rows)

    def test_rows_may_have_been_written_in_any_order(self, out: Path) -> None:
        first = run(out)
        lines = out.read_bytes().splitlines(keepends=True)
        out.write_bytes(b"".join(reversed(lines)))
        assert run(out).rows == first.rows

    @pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
    def test_killed_at_any_moment_it_loses_the_trials_under_way(
        self, out: Path, workers: int
    ) -> None:
        command = (
            "from askance_simulation.experiments.sweeps import sweep\n"
            "if __name__ == '__main__':\n"
            f"    sweep('mean', {LONG}, trials={LONG_TRIALS}, out={str(out)!r},"
            f" fleet='objects', workers={workers})\n"
        )
        script = out.with_name("script.py")
        script.write_text(command)
        process = subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            deadline = time.monotonic() + 60
            while not out.exists() or out.read_bytes().count(b"\n") < 3:
                assert process.poll() is None, "it ended before it was killed"
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kept = Sweep.read(out).rows
        assert 3 <= len(kept) < 4 * LONG_TRIALS, "it was not killed under way"
        _unlocked(out)
        found = sweep("mean", LONG, trials=LONG_TRIALS, out=out)
        whole = without_seconds(sweep("mean", LONG, trials=LONG_TRIALS).rows)
        again = without_seconds(found.rows)
        for row in (*whole, *again):
            del row["fleet"]
        assert again == whole
        assert {json.dumps(row) for row in kept} <= {json.dumps(row) for row in found.rows}


def _unlocked(path: Path) -> None:
    """Wait for the workers of a killed process to end; they do so by themselves."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with row_file.opened(path):
                return
        except InvalidParameter:
            assert time.monotonic() < deadline, "a worker outlives its parent"
            time.sleep(0.05)


class TestOtherFiles:
    def test_another_seed_s(self, out: Path) -> None:
        run(out)
        before = out.read_bytes()
        with pytest.raises(InvalidParameter, match="expected rows of this sweep only, got one"):
            run(out, seed=1)
        assert out.read_bytes() == before

    @pytest.mark.parametrize(
        "changes", [{"grid": {**GRID, "epsilon": 1}}, {"trials": 2}, {"population": "traits"}]
    )
    def test_a_sweep_s_that_has_other_trials(self, out: Path, changes: dict[str, Any]) -> None:
        run(out)
        before = out.read_bytes()
        with pytest.raises(InvalidParameter, match=r"rows.jsonl: expected rows of this sweep"):
            run(out, **changes)
        assert out.read_bytes() == before

    def test_one_s_that_predicts_another_column(self, tmp_path: Path) -> None:
        data, out = tmp_path / "people.csv", tmp_path / "rows.jsonl"
        data.write_text("a,b\n" + "x,p\ny,q\n" * 50)
        given: dict[str, Any] = {"data": data, "out": out}
        sweep("frequency", {"epsilon": 4, "column": "a"}, label="a", **given)
        with pytest.raises(InvalidParameter, match="expected rows of this sweep only"):
            sweep("frequency", {"epsilon": 4, "column": "a"}, label="b", **given)

    def test_another_version_s(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run(out)
        monkeypatch.setattr(running, "__version__", "9.9")
        with pytest.raises(InvalidParameter, match=r"expected rows of askance 9.9, got some of"):
            run(out)

    @pytest.mark.parametrize(
        "text", ["my notes", "my notes\n", '{"a": 1}\n', '{"cell": "a"}\n', "[1]\n\n", '{"b']
    )
    def test_somebody_s_own(self, out: Path, text: str) -> None:
        out.write_text(text)
        with pytest.raises(
            InvalidParameter, match="expected a sweep's row, got another text on line 1"
        ):
            run(out)
        assert out.read_text() == text

    def test_a_broken_line_among_whole_ones(self, out: Path) -> None:
        run(out)
        lines = out.read_bytes().splitlines(keepends=True)
        lines[4] = lines[4][:50] + b"\n"
        out.write_bytes(b"".join(lines))
        with pytest.raises(InvalidParameter, match="got another text on line 5"):
            run(out)
        assert out.read_bytes() == b"".join(lines)

    def test_one_that_another_process_is_writing(self, out: Path) -> None:
        with (
            row_file.opened(out),
            pytest.raises(InvalidParameter, match="another process is writing it"),
        ):
            run(out)

    def test_who_finds_it_taken_takes_nothing_away(self, out: Path) -> None:
        """A file without a row yet is removed by its owner only, or later rows would be lost."""
        with row_file.opened(out) as file:
            with pytest.raises(InvalidParameter, match="another process is writing it"):
                run(out)
            file.append({"cell": "first", "trial": 0})
        assert [row["cell"] for row in row_file.read_rows(out)] == ["first"]

    def test_one_that_is_removed_while_it_is_opened_is_made_anew(
        self, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lock, locked = fcntl.flock, list[int]()

        def removed_before(descriptor: int, how: int) -> None:
            if not locked:
                out.unlink()
            locked.append(descriptor)
            lock(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", removed_before)
        with row_file.opened(out) as file:
            file.append({"cell": "first", "trial": 0})
        assert len(locked) == 2
        assert [row["cell"] for row in row_file.read_rows(out)] == ["first"]

    def test_one_for_which_there_is_no_room(
        self, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The error names the file, and the sweep continues when the disk has space again."""
        write, left = os.write, [2_000]

        def written(descriptor: int, line: bytes) -> int:
            if not left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count = write(descriptor, line[: left[0]])
            left[0] -= count
            return count

        with monkeypatch.context() as full:
            full.setattr(os, "write", written)
            with pytest.raises(OSError, match=r"No space left on device: '.*rows.jsonl'"):
                run(out)
        assert out.stat().st_size == 2_000
        kept = Sweep.read(out).rows
        assert kept
        assert run(out).rows[: len(kept)] == kept
        assert without_seconds(Sweep.read(out).rows) == without_seconds(
            sweep("mean", GRID, trials=3).rows
        )

    def test_none_at_all(self, out: Path) -> None:
        with pytest.raises(InvalidParameter, match="expected a file of rows, got none"):
            Sweep.read(out)


def test_parquet_is_written_from_the_rows_beside_it(tmp_path: Path) -> None:
    from pyarrow import parquet

    out = tmp_path / "rows.parquet"
    found = run(out, trials=1)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl", "rows.parquet"}
    assert parquet.read_table(out).to_pylist() == found.flat()
    out.unlink()
    run(out, trials=1)
    assert parquet.read_table(out).to_pylist() == found.flat(), "without a trial run again"


def test_a_worker_that_is_killed_is_told_of_and_what_was_done_is_kept(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.with_name("fatal_learner.py").write_text(
        "import multiprocessing, os\n"
        "from askance_simulation.experiments import named\n"
        "def fatal(cell):\n"
        "    if cell.users == 80 and multiprocessing.parent_process() is not None:\n"
        "        os._exit(9)\n"
        "    return named('mean', epsilon=cell.epsilon, users=cell.users)\n"
    )
    monkeypatch.syspath_prepend(str(out.parent))
    fatal = importlib.import_module("fatal_learner").fatal
    grid = {"epsilon": 1, "users": [50, 80]}
    with pytest.raises(AskanceError, match="a worker was killed"):
        sweep(fatal, grid, trials=1, out=out, workers=2)
    assert {row["users"] for row in sweep(fatal, grid, trials=1, out=out).rows} == {50, 80}
