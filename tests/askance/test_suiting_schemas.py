"""A study in Python reads a file's columns as the same question does on the command line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance.cli import main

L = ask.learners
ROWS = [f"{(10115, 20095, 80331)[i % 3]},{i % 50},{('no', 'yes')[i % 2]},p{i}" for i in range(300)]
# A question in Python, and the words of the same one.
QUESTIONS: list[tuple[ask.Learner[Any], str]] = [
    (L.frequency("PLZ"), "frequency --column PLZ"),  # whole numbers as labels
    (L.difference("income ($)", by="PLZ"), "difference --group PLZ --column income____"),
    (L.mean("paid"), "mean --column paid"),  # yes and no as 1 and 0
    (L.frequency("name"), "frequency --column name"),  # left out as an identifier
    (L.mean_vector(["income ($)", "paid"]), "mean-vector --columns income____,paid"),
    (L.mean("income ($)"), "mean --column income____"),  # nothing else is needed
    (  # texts without a list, for one candidate is no value of a row
        L.heavy_hitters("name", candidates=["p1", "q1"]),
        "heavy-hitters --column name --set candidates=p1,q1",
    ),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suiting") / "people.csv"
    path.write_text("\n".join(["PLZ,income ($),paid,name", *ROWS]) + "\n")
    return path


WAYS: list[tuple[str, Callable[[ask.Learner[Any], ask.Population], Any]]] = [
    ("learner", lambda learner, people: (learner, {"epsilon": 4})),
    ("study", lambda learner, people: (ask.Study(learner, epsilon=4), {})),
    ("its schema", lambda learner, people: (ask.Study(learner, people.schema, epsilon=4), {})),
]


@pytest.mark.parametrize(("learner", "words"), QUESTIONS, ids=[words for _, words in QUESTIONS])
def test_both_ask_the_same(
    file: Path, learner: ask.Learner[Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"simulate {words} --data {file} --epsilon 4 --fleet columns --json"
    assert main(line.split()) == 0
    expected = json.loads(capsys.readouterr().out)
    people = ask.read(file)
    for _, way in WAYS:
        asked, options = way(learner, people)
        found = ask.simulate(asked, people, fleet="columns", **options).to_json()
        for key in ("transcript", "hypothesis", "notes", "fields"):
            assert found[key] == expected[key]


def test_a_schema_that_is_given_is_taken_as_it_is(file: Path) -> None:
    given = pickle.loads(pickle.dumps(ask.read(file).schema))  # it knows no data
    with pytest.raises(ask.InvalidParameter, match="expected a category, got 'PLZ', a whole"):
        ask.simulate(L.frequency("PLZ"), ask.read(file, given), epsilon=4)


def test_changed_users_keep_their_change(file: Path) -> None:
    changed = ask.read(file).with_label_noise("1/2", label="paid")
    with pytest.raises(ask.InvalidParameter, match="expected a category, got 'PLZ'"):
        ask.simulate(L.frequency("PLZ"), changed, epsilon=4, fleet="columns")


def test_a_study_without_a_schema_is_shown(file: Path) -> None:
    study = ask.Study(L.frequency("PLZ"), epsilon=4, fields=["PLZ"])
    assert repr(study) == "<Study: frequency('PLZ'), epsilon 4, without a schema>"
    assert "that of the users" in study._repr_html_()
    people = ask.read(file)
    bound = study.bound(people.schema)
    assert (bound.fields, bound.epsilon, bound.beta) == (("PLZ",), 4, study.beta)
    assert bound.bound(people.schema) is bound
    assert bound.plan(people.size).users_needed == 300
