"""Studies and populations by name and text: who meets whom, and one clear error for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance_aggregator.learners import Conjunction, MaskedParity, learners
from askance_client.errors import AskanceError, InvalidParameter, InvalidRecord
from askance_client.queries import Bits
from askance_simulation.experiments import named
from askance_simulation.populations import POPULATIONS
from askance_simulation.randomness import Seed

SEED = Seed.of(0)
SCHEMA = """
name = "people"
[fields]
age = { type = "integer", low = 0, high = 120 }
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("age,work,income\n17,none,low\n40,office,high\n23,office,low\n")
    return path


def study_of(learner: str, **arguments: Any) -> ask.Study:
    """Return the study of these arguments, for the users that it makes."""
    made = named(learner, **arguments)
    return made.study(made.people(SEED))


@pytest.mark.parametrize("learner", [entry.name for entry in learners()])
def test_every_learner_has_people_to_meet(learner: str) -> None:
    made = named(learner, epsilon=1, users=50)
    people = made.people(SEED)
    study = made.study(people)
    assert people.size == 50
    assert study.learner.name == learner
    assert study.schema.digest == people.schema.digest


def test_a_setting_reaches_the_people_and_the_learner() -> None:
    made = named("masked-parity", epsilon=1, users=5, settings={"d": "16", "variant": "printed"})
    people = made.people(SEED)
    field = people.schema.fields["x"]
    assert isinstance(field, Bits)
    assert field.width == 16
    assert isinstance(people.target, MaskedParity)
    assert made.study(people).learner.parameters["variant"] == "printed"


def test_what_the_people_take_the_learner_is_not_told() -> None:
    settings = {"d": "4", "relevant": "3", "accuracy": "1/4"}
    made = named("conjunctions", epsilon=1, users=5, settings=settings)
    people = made.people(SEED)
    assert isinstance(people.target, Conjunction)
    assert len(people.target.variables) == 3
    assert made.study(people).learner.parameters == {"accuracy": "1/4"}
    assert settings == {"d": "4", "relevant": "3", "accuracy": "1/4"}


def test_a_learner_may_meet_another_learner_s_people() -> None:
    made = named("frequency", epsilon=1, users=9, population="masked-parity")
    people = made.people(SEED)
    assert people.name == "masked-parity"
    assert made.study(people).learner.name == "frequency"


def test_people_from_a_file_are_as_many_as_its_rows(data: Path) -> None:
    made = named("mean", epsilon=1, data=data, settings={"column": "age"})
    assert made.people(SEED).size == 3
    assert named("mean", epsilon=1, data=data, users=2).people(SEED).size == 2


def test_a_file_s_label_is_what_a_frequency_is_taken_of(data: Path) -> None:
    made = named("frequency", epsilon=1, data=data, label="income")
    study = made.study(made.people(SEED))
    expected = ask.learners.frequency(study.schema["income"])
    assert study.learner.parameters["query"] == expected.parameters["query"]


def test_a_file_s_schema_may_be_given(data: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(SCHEMA)
    people = named("mean", epsilon=1, data=data, schema=schema).people(SEED)
    assert list(people.schema.fields) == ["age"]
    assert people.notes == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learner": "oracle"}, "'oracle'"),
        ({"population": "martians"}, "'martians'"),
        ({"users": None}, "expected a number of users, got none"),
        ({"users": 0}, "users: expected a whole number of 1 or more, got 0"),
        ({"settings": {"d": "eight"}}, "d: expected a whole number, got 'eight'"),
        ({"settings": {"d": "1"}}, r"d: expected a whole number in 2\.\.1024, got 1"),
        ({"settings": {"colour": "red"}}, "'colour'"),
        ({"settings": {"variant": "other"}}, "variant"),
        ({"label": "income"}, "expected a data file with schema, label or categories"),
        ({"schema": Path("schema.toml")}, "expected a data file with schema, label or categories"),
        ({"population": "numbers", "data": Path("x.csv")}, "expected a population or a data file"),
        ({"data": Path("none.csv")}, "none.csv: cannot be read"),
        ({"population": "numbers"}, "masked-parity: expected the fields"),
        ({"epsilon": "0"}, "epsilon"),
        ({"beta": "1"}, "beta"),
    ],
)
def test_anything_else_is_one_clear_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AskanceError, match=message) as caught:
        study_of(**{"learner": "masked-parity", "epsilon": 1, "users": 10, **given})
    assert "\n" not in str(caught.value)


def test_what_is_listed_is_what_there_is() -> None:
    listed = ask.catalogue()
    assert [item["name"] for item in listed["learners"]] == [e.name for e in learners()]
    assert {item["name"] for item in listed["populations"]} == set(POPULATIONS)
    assert [item["name"] for item in listed["changes"]] == ["label-noise", "drift"]
    for item in listed["learners"]:
        known = {parameter["name"] for parameter in item["parameters"]}
        assert len(known) == len(item["parameters"])
        assert item["summary"]
        assert item["error"]


class TestPlans:
    """A plan by name is the plan of the study that would be run."""

    @pytest.mark.parametrize("learner", ["conjunctions", "masked-parity"])
    def test_people_of_the_learner_s_own_schema_change_nothing(self, learner: str) -> None:
        alone = ask.plan(learner, epsilon=1)
        assert alone.feasible
        assert alone.n_users is None
        met = study_of(learner, epsilon=1, users=5).plan(10**7)
        assert [r.to_json() for r in met.rounds] == [r.to_json() for r in alone.rounds]

    def test_more_users_than_a_file_has_rows_may_be_planned_for(self, data: Path) -> None:
        settings = {"column": "age"}
        assert ask.plan("mean", epsilon=1, data=data, settings=settings).n_users == 3
        assert ask.plan("mean", epsilon=1, data=data, users=500, settings=settings).n_users == 500

    def test_too_few_users_are_a_plan_that_says_why(self) -> None:
        found = ask.plan("masked-parity", epsilon=1, users=10)
        assert not found.feasible
        counts = f"the plan needs {found.users_needed:,} users, the population has 10"
        assert found.reason is not None
        assert found.reason.startswith(f"{counts}: it needs fewer with a larger epsilon, ")


@pytest.mark.parametrize(
    ("learner", "setting"),
    [
        ("mean", "column"),
        ("quantiles", "column"),
        ("heavy-hitters", "column"),
        ("linear-regression", "target"),
        ("k-means", "columns"),
        ("marginals", "columns"),
        ("mean-vector", "columns"),
        ("difference", "column"),
    ],
)
def test_a_misspelt_column_is_answered_with_the_nearest(
    learner: str, setting: str, data: Path
) -> None:
    with pytest.raises(InvalidParameter, match=r"got 'agee' \(did you mean age\?\)"):
        study_of(learner, epsilon=1, users=10, data=data, settings={setting: "agee"})


def test_a_misspelt_label_is_answered_with_the_nearest(data: Path) -> None:
    with pytest.raises(InvalidRecord, match=r"label: .*, got 'incom' \(did you mean income\?\)"):
        study_of("naive-bayes", epsilon=1, users=10, data=data, label="incom")


def test_a_randomizer_is_chosen_by_its_name() -> None:
    made = named("frequency", epsilon=3, users=100, randomizer="k-ary-response")
    people = made.people(Seed.of(0))
    (planned,) = made.study(people).plan(100).rounds
    assert planned.randomizers == ("k-ary-response(16)",)
    with pytest.raises(InvalidParameter, match="expected one of best, k-ary-response"):
        named("frequency", epsilon=3, users=100, randomizer="best-of-all")


NAME_COLUMN = "of several that suit; name others by --column"


@pytest.mark.parametrize(
    ("learner", "settings", "chosen"),
    [
        ("difference", {}, f"chosen: age, {NAME_COLUMN}"),
        ("difference", {"column": "pay"}, None),
        ("association", {}, f"chosen: sex, town, {NAME_COLUMN}s"),
        ("association", {"columns": "sex,town"}, None),
        ("logistic-regression", {"columns": "age,pay"}, None),
        (
            "logistic-regression",
            {},
            "chosen: age, as many as users and epsilon allow; name others by --columns",
        ),
    ],
)
def test_columns_of_a_file_that_no_setting_names_are_said_to_be_chosen(
    tmp_path: Path, learner: str, settings: dict[str, str], chosen: str | None
) -> None:
    path = tmp_path / "people.csv"
    rows = (
        f"{n % 50},{n % 31},{'fm'[n % 2]},{'abc'[n % 3]},{'de'[n % 2]},{'ny'[n % 2]}\n"
        for n in range(300)
    )
    path.write_text("age,pay,sex,town,work,out\n" + "".join(rows), encoding="utf-8")
    made = named(learner, epsilon=".2", data=path, label="out", settings=settings)
    result = ask.simulate(made.study, made.people, fleet="tally", seed=1)
    assert [note for note in result.notes if note.startswith("chosen")] == [chosen] * bool(chosen)


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        (
            {},
            "compared: b less a, two of the 3 values of town; name others by --first and --second;"
            " users without a value of town are in neither group",
        ),
        (
            {"group": "kind"},
            "compared: y less x; users without a value of kind are in neither group",
        ),
        ({"group": "kind", "first": "(missing)"}, "compared: y less (missing)"),
        ({"first": "c"}, "compared: b less c, two of the 3 values of town"),
        ({"first": "b"}, "compared: a less b, two of the 3 values of town"),
        ({"first": "a", "second": "c"}, None),
        ({"group": "sex"}, None),
    ],
)
def test_groups_that_no_setting_names_are_said_to_be_compared(
    tmp_path: Path, settings: dict[str, str], note: str | None
) -> None:
    path = tmp_path / "people.csv"
    rows = (
        f"{n % 50},{'fm'[n % 2]},{['', 'a', 'b', 'c'][n % 4]},{['', 'x', 'y'][n % 3]}\n"
        for n in range(300)
    )
    path.write_text("age,sex,town,kind\n" + "".join(rows), encoding="utf-8")
    settings = {"column": "age", "group": "town", **settings}
    made = named("difference", epsilon=4, data=path, settings=settings)
    people = ask.read(path)
    by = settings.pop("group")
    given = ask.learners.difference(settings.pop("column"), by=by, **settings)
    for study, users in ((made.study, made.people), (given, people)):
        result = ask.simulate(study, users, epsilon=4 if users is people else None, seed=1)
        shown = [one for one in result.notes if one.startswith("compared")]
        assert len(shown) == bool(note)
        assert not note or shown[0].startswith(note)
        assert ("(missing)" in (note or "")) <= ("neither" not in "".join(shown))
