"""Workers that die or raise, progress, sweeps, and whose Ray it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import askance as ask
from askance_aggregator.learners import assessments
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.studies.tallies import CHUNK
from askance_client.errors import AskanceError, InvalidParameter
from askance_simulation.experiments import run_trial
from askance_simulation.experiments.sweeps.running import Job, run_as_task
from askance_simulation.fleets import fleet_by
from askance_simulation.fleets.cluster import NoCluster, joined
from askance_simulation.fleets.shards import LostResults, compute, import_ray
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed

MANY = 7 * CHUNK + 300
RUN = ["simulate", "mean", "--users", "200000", "--epsilon", "1", "--json", "--fleet"]


def study_of(people: Population) -> ask.Study:
    return ask.Study(ask.learners.mean(people.schema["number"]), people.schema, epsilon=1)


def digest(people: Population, fleet: str, **more: Any) -> str:
    trial = run_trial(
        study_of(people), people, fleet=fleet_by(fleet, None), seed=Seed.of(5), **more
    )
    return trial.outcome.transcript


def numbers(happens: Callable[[int], None] | None = None) -> Population:
    """Make numbers; `happens` is called with the first user of each chunk computed by a worker."""
    people = Population.generated("numbers", MANY, seed=2)
    if happens is None:
        return people
    here, plain = os.getpid(), people.columns

    def columns(start: int, stop: int) -> EncodedColumns:
        if os.getpid() != here:
            happens(start)
        return plain(start, stop)

    return replace(people, columns=columns)


def ran(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), **settings(environment), timeout=120, check=False)


def command(*words: str) -> list[str]:
    code = "import sys; from askance.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, *words]


def settings(environment: dict[str, str]) -> dict[str, Any]:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return {"env": os.environ | paths | environment, "text": True, "capture_output": True}


@pytest.mark.usefixtures("ray_of_three")
class TestWorkers:
    def test_a_worker_that_is_killed_in_the_middle_of_a_round_changes_nothing(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        once = tmp_path / "killed"

        def dies(start: int) -> None:
            if start == 4 * CHUNK and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        assert digest(numbers(dies), "ray") == digest(numbers(), "columns")
        assert once.exists()
        time.sleep(1)  # Ray says so late, if it does
        assert capfd.readouterr() == ("", "")

    def test_what_a_worker_raises_is_one_line(self) -> None:
        def fails(start: int) -> None:
            if start == 3 * CHUNK:
                raise ZeroDivisionError("no such people")

        with pytest.raises(LostResults) as caught:
            digest(numbers(fails), "ray")
        assert str(caught.value) == (
            "cluster: expected the results of chunks 3 to 3, got ZeroDivisionError: no such people"
        )
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("error", [InvalidParameter("users: not these"), MemoryError()])
    def test_what_has_a_name_here_keeps_it(self, error: Exception) -> None:
        def fails(start: int) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            digest(numbers(fails), "ray")
        assert str(caught.value) == str(error)

    def test_the_judge_reads_no_more_than_a_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Workers return the truth of the users whose records they read."""
        monkeypatch.setattr(assessments, "_SAMPLED", 1_000)  # of how wide the values lie
        people, here = numbers(), os.getpid()
        plain, read = people.columns, list[int]()

        def columns(start: int, stop: int) -> EncodedColumns:
            if os.getpid() == here:
                read.append(stop - start)
            return plain(start, stop)

        told = ask.simulate(study_of(people), replace(people, columns=columns), fleet="ray")
        near = ask.simulate(study_of(people), people, fleet="columns")
        assert told.trials[0].assessment == near.trials[0].assessment
        assert told.trials[0].whole == near.trials[0].whole == {"number"}
        assert told.notes == near.notes
        assert sum(read) <= 2_000  # one for the guess, one for the bounds

    def test_progress_adds_up_to_the_answers(self) -> None:
        steps: list[int] = []
        digest(numbers(), "ray", progress=steps.append)
        assert sum(steps) == MANY
        assert len(steps) == 8

    def test_people_in_arrays_are_sent_once(self) -> None:
        """In a worker the columns are a read-only view of the object store."""
        schema = ask.Schema("ages", 1, number=ask.Integer(0, 127))
        ages = [person % 100 for person in range(2 * CHUNK + 9)]
        people = Population.from_columns(schema, {"number": ages})
        plain, here = people.columns, os.getpid()

        def columns(start: int, stop: int) -> EncodedColumns:
            found = plain(start, stop)
            if os.getpid() != here and found.values["number"].flags.writeable:  # type: ignore[union-attr]  # one array
                raise ValueError("a copy")
            return found

        assert digest(replace(people, columns=columns), "ray") == digest(people, "columns")

    def test_another_version_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match=r"expected askance 0\.0\.0 on every node"):
            compute([], range(1), "0.0.0")
        with pytest.raises(InvalidParameter, match=r"expected askance 0\.0\.0 on every node"):
            run_as_task(cast("Job", None), "0.0.0")


@pytest.mark.usefixtures("ray_of_three")
class TestWhoseRayItIs:
    def test_one_that_this_process_is_in_is_used_and_left_alone(self) -> None:
        with joined() as at_once:
            assert at_once == 6
        with joined(2) as at_once:
            assert at_once == 2
        assert import_ray().is_initialized()

    def test_its_own_listens_on_the_loopback_interface(self) -> None:
        (node,) = import_ray().nodes()
        assert node["NodeManagerAddress"] == "127.0.0.1"

    def test_a_second_one_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="whose Ray this process is in"):
            ask.simulate(study_of(numbers()), numbers(), fleet="ray", cluster="127.0.0.1:1")

    def test_a_program_joins_by_address_and_leaves(self) -> None:
        address = import_ray().get_runtime_context().gcs_address
        told = ran(*RUN, "ray", "--cluster", address, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
        assert told.returncode == 0, told.stderr
        here = ran(*RUN, "columns")
        assert json.loads(told.stdout)["transcript"] == json.loads(here.stdout)["transcript"]
        assert import_ray().cluster_resources()["CPU"] == 3


def test_only_ray_has_a_cluster() -> None:
    with pytest.raises(InvalidParameter, match="cluster: expected the fleet 'ray', got"):
        ask.simulate(study_of(numbers()), numbers(), fleet="columns", cluster="127.0.0.1:1")


def test_nobody_at_an_address() -> None:
    told = ran(*RUN, "ray", "--cluster", "127.0.0.1:1")
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    assert line.startswith("askance: cluster: expected a Ray cluster at 127.0.0.1:1, got none")
    assert issubclass(NoCluster, AskanceError)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_is_ended_ends_its_ray(how: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    words = ["simulate", "mean", "--users", "100000000000", "--epsilon", "1"]
    words += ["--fleet", "ray", "--workers", "1"]
    kept = settings({"ASKANCE_TEST": mark})
    del kept["capture_output"]
    with subprocess.Popen(command(*words), **kept, stderr=subprocess.PIPE) as program:
        try:
            deadline = time.monotonic() + 120
            while not any("ray::compute" in name for name in marked(mark)):
                assert time.monotonic() < deadline
                time.sleep(0.2)
            program.send_signal(how)
            _, errors = program.communicate(timeout=60)
        finally:
            program.kill()
    own = [line for line in errors.splitlines() if not line.startswith("planning, ")]
    assert (program.returncode, own) == (130, ["askance: interrupted"])
    deadline = time.monotonic() + 20
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """Return the command lines of the processes that have a mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue  # it has ended
    return found
