"""Objects of the front in notebooks: one mechanism, escaped texts, few rows, and short reprs."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance_aggregator.analyst.client import StudyHandle
from askance_aggregator.learners import presentation_of
from askance_aggregator.reports.figures import estimate_texts
from askance_aggregator.reports.report import MAX_ROWS
from askance_aggregator.studies.transcript import MemoryLog, Transcript
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<script>alert('x')</script>"
CELLS = [f"{HOSTILE}{number}" for number in range(40)]


@cache
def simulated() -> ask.Simulation:
    """Return a run over hostile labels, by a schema and for a purpose of hostile names."""
    schema = ask.Schema(HOSTILE, 1, word=ask.Category(CELLS))
    words = np.random.default_rng(1).integers(0, len(CELLS), 4_000)
    people = ask.Population.from_columns(
        schema, {"word": np.array(CELLS)[words]}, name=f"<b>{HOSTILE}"
    )
    study = ask.Study(
        ask.learners.frequency(schema.word), schema, epsilon=4, purpose=f"for {HOSTILE}"
    )
    return ask.simulate(study, people, fleet="columns", seed=3, workers=1)


def handle() -> StudyHandle:
    connected: Any = SimpleNamespace(address=f"{HOSTILE}:7443")
    return StudyHandle(connected, bytes(range(32)))


@cache
def objects() -> dict[str, Any]:
    result = simulated()
    people = result.trials[0].population
    return {
        "Study": result.study,
        "StudyPlan": result.study.plan(people.size),
        "Simulation": result,
        "Population": people,
        "Transcript": result.transcript,
        "StudyHandle": handle(),
        "Schema": people.schema,
    }


KINDS = ["Study", "StudyPlan", "Simulation", "Population", "Transcript", "StudyHandle", "Schema"]


@pytest.mark.parametrize("kind", KINDS)
class TestForms:
    def test_the_html_is_escaped(self, kind: str) -> None:
        page = objects()[kind]._repr_html_()
        assert page.startswith('<div class="askance">')
        assert "<script" not in page
        assert "<b>" not in page
        if kind != "StudyPlan" and kind != "Transcript":
            assert "&lt;script&gt;" in page

    def test_the_html_has_few_rows(self, kind: str) -> None:
        assert objects()[kind]._repr_html_().count("<tr>") <= MAX_ROWS + 1

    def test_the_repr_is_one_short_line(self, kind: str) -> None:
        line = repr(objects()[kind])
        assert len(line) <= 120
        assert line.isprintable()
        assert kind in line


def census() -> ask.Simulation:
    people = ask.read("census", users=2_000)
    study = ask.Study(ask.learners.frequency(people.schema.education), people.schema, epsilon=2)
    return ask.simulate(study, people, fleet="columns", seed=7, workers=1)


def test_the_reprs_show_the_values_that_matter() -> None:
    result = census()
    people = result.trials[0].population
    assert repr(people) == (
        "<Population: census, 2,000 users,"
        " 7 fields: age, sex, region, education, occupation, hours, income>"
    )
    assert repr(result.study) == "<Study: frequency of education, epsilon 2, schema census>"
    assert repr(result.study.plan(people.size)).endswith("1 round, epsilon 2, feasible>")
    assert repr(result) == (
        f"<Simulation: frequency of education, 2,000 users, epsilon 2, error {result.error:.3g},"
        f" baseline {result.baseline:.3g}>"
    )
    assert repr(result.transcript) == (
        f"<Transcript: frequency, 1 round, 2,000 answers, {result.transcript.digest[:23]}>"
    )
    assert repr(people.schema).startswith("Schema('census', 1, age=Integer, sex=Category, ")
    assert repr(handle()).startswith("<StudyHandle: 0001020304050607... on ")


def test_a_simulation_shows_what_the_command_line_prints() -> None:
    result = census()
    page, told = result._repr_html_(), result.to_json()
    shown = presentation_of(result.hypothesis)
    assert "frequency of education, 2,000 users, epsilon 2" in page
    for row, text in zip(
        shown.rows, estimate_texts(shown.rows, told["truth"], shares=True), strict=True
    ):
        for part in (row.name, text.estimate, f"+- {text.half_width}", f"true {text.truth}"):
            assert f">{part}</td>" in page
    assert "joint) contain the true value" in page
    assert "Each of 2,000 users answered once and spent 2.00 of 2.00 nats." in page
    assert "note: bounds and labels were inferred from the data file" in page


def test_a_long_table_says_how_many_rows_are_left_out() -> None:
    assert f"and {len(CELLS) - MAX_ROWS} more" in simulated()._repr_html_()
    assert "--all" not in simulated()._repr_html_()


def test_a_plan_that_is_not_feasible_says_why() -> None:
    study = simulated().study
    tight = ask.Study(ask.learners.frequency(study.schema["word"], tau="0.01"), epsilon="0.1",
                      schema=study.schema)  # fmt: skip
    plan = tight.plan(100)
    assert "not feasible: the plan needs" in repr(plan)
    assert "the population has 100" in plan._repr_html_()
    assert "the population has 100" in str(plan)
    assert "    tau\n" in str(plan)  # `print` shows the tolerance, as `askance plan` does


def test_a_study_is_shown_without_being_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    from askance_aggregator.studies import study as module

    monkeypatch.setattr(module, "plan", None)
    monkeypatch.setattr(module, "fields_needed", None)
    study = census_study()
    assert "frequency of education" in study._repr_html_() + repr(study)


def census_study() -> ask.Study:
    schema = ask.read("census", users=10).schema
    return ask.Study(ask.learners.frequency(schema.education), schema, epsilon=1)


def test_a_transcript_without_events_has_a_form() -> None:
    empty = Transcript(MemoryLog())
    assert repr(empty).startswith("<Transcript: no study, 0 rounds, 0 answers, sha256:")
    assert "<table>" in empty._repr_html_()


def test_a_transcript_counts_every_user_of_a_round_once() -> None:
    """Users of one cohort answer several questions: they are counted once, their charges summed."""
    people = ask.read("census", users=2_000)
    learner = ask.learners.marginals(people.schema, ["sex", "region", "income"])
    study = ask.Study(learner, people.schema, epsilon=8)
    result = ask.simulate(study, people, fleet="columns", seed=1, workers=1)
    page = result.transcript._repr_html_()
    (asked,) = [taken.users for taken in result.trials[0].rounds]
    assert f">{asked:,}</td>" in page
    assert f">{result.epsilon_spent.max:.9g}</td>" in page


@pytest.mark.parametrize(
    "statement", ["ask.Schema('s', 1, a=ask.Bit())", "ask.read('census', users=9).schema"]
)
def test_a_schema_of_the_front_has_its_form_at_once(statement: str) -> None:
    """The form is attached from outside of the trusted core, wherever the front gives a schema."""
    code = f"import askance as ask; print({statement}._repr_html_())"
    folders = [str(ROOT / name) for name in FOLDERS]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {folders!r}; {code}"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "<table>" in done.stdout


def test_the_core_alone_makes_no_html() -> None:
    code = "from askance_client.queries import Schema; print('_repr_html_' in vars(Schema))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'client')!r}); {code}"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"
