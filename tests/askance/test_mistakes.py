"""Natural mistakes, on the command line and in Python, each with the line that answers it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance.cli import main

FILE = "people.csv"
ON = f"--data {FILE} --epsilon 1"

# The words after "askance", and the beginning of the one line on stderr.
TYPED = [
    # No learner, or in another order.
    ("simulate", "expected a learner's name, got none (see askance simulate --list)"),
    (
        f"simulate --data {FILE} --column city --epsilon 1",
        "expected a learner's name, got none (see askance simulate --list)",
    ),
    (
        f"simulate frequency {FILE} --column city --epsilon 1",
        f"unrecognized arguments: {FILE} (did you mean --data {FILE}?)",
    ),
    (f"simulate Frequency {ON}", "no learner 'Frequency' (did you mean frequency?)"),
    # Options.
    (
        f"simulate frequency --data {FILE} --column city --eps 1",
        "unrecognized arguments: --eps 1 (did you mean --epsilon?)",
    ),
    (
        f"simulate frequency {ON} --column home town",
        "unrecognized arguments: town (quote a name that has spaces) (see askance simulate",
    ),
    (
        f"simulate frequency --columns city {ON}",
        "unrecognized arguments: --columns city (did you mean --column?)",
    ),
    (
        f"simulate frequency --data {FILE} --column city",
        "expected --epsilon, got none (see askance simulate frequency --help)",
    ),
    ("sweep mean", "expected --epsilon, got none (see askance sweep mean --help)"),
    (
        "plan mean --tau 1",
        "expected --epsilon, or --users with a tolerance (--tau) to find the least one, or"
        " --outer-epsilon, got none of them (see askance plan mean --help)",
    ),
    (
        "study submit mean --aggregator 127.0.0.1:1 --key no.pem",
        "expected --schema, got none (see askance study submit mean --help)",
    ),
    ("study submit", "expected LEARNER|FILE.toml, got none (see askance study submit --help)"),
    ("device init", "expected folder, got none (see askance device init --help)"),
    (f"simulate median {ON}", "no learner 'median' (did you mean quantiles, or ranges for all"),
    (f"simulate histogram {ON}", "no learner 'histogram' (did you mean ranges, or frequency of"),
    ("plan value_counts --epsilon 1", "no learner 'value_counts' (did you mean frequency?)"),
    # Values.
    (
        f"simulate frequency --data {FILE} --column city --epsilon one",
        'epsilon: expected nats as "0.5" or "1/2", up to 64 characters, got \'one\'',
    ),
    (
        f"simulate frequency --column city --tau 2 {ON}",
        "tau: expected at most 1, as of shares, got 2",
    ),
    (f"simulate frequency --column city --tau 0 {ON}", "tau expects a positive number, got 0\n"),
    (
        f"simulate quantiles --column age --levels 50 {ON}",
        "levels: expected shares between 0 and 1, as 0.5, got 50",
    ),
    # Columns.
    (
        f"simulate mean --column age,hours {ON}",
        "mean: column: expected one of the fields age, hours, got 'age,hours':"
        " this learner takes one",
    ),
    (
        f"simulate mean --column city {ON}",
        "mean: column: expected a number or a bit, got 'city', a category (try age, hours)",
    ),
    (
        f"simulate naive-bayes {ON}",
        "label: expected one of the categories city, sex, got none",
    ),
    (
        f"simulate correlation --columns age,hour {ON}",
        "expected one of the fields age, hours, city, sex, got 'hour' (did you mean hours?)\n",
    ),
    (
        f"simulate correlation --columns age {ON}",
        "correlation: columns: expected two numbers or bits, got age",
    ),
    (
        f"simulate correlation --columns age,age {ON}",
        "columns: expected each field once, got 'age' twice",
    ),
    (
        f"simulate masked-parity {ON}",
        "masked-parity: expected the fields x, i, b and y, as the population masked-parity has"
        " them, got age, hours, city, sex",
    ),
    (
        f"simulate difference --column city --group sex {ON}",
        "difference: column: expected a number or a bit, got 'city', a category (try age,"
        " hours); in the file, city:",
    ),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{20 + i % 31},{i % 17},{['Rome', 'Oslo', 'Bern'][i % 3]},{'fm'[i % 2]}" for i in range(60)
    ]
    Path(FILE).write_text("\n".join(["age,hours,city,sex", *rows]))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("words", "answer"), TYPED)
def test_a_mistake_on_the_command_line_is_answered_in_one_line(
    words: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"askance: {answer}")
    assert printed.err.count("\n") == 1


@cache
def people() -> ask.Population:
    return ask.Population.generated("traits", 50)


def study() -> ask.Study:
    return ask.Study(ask.learners.frequency(people().schema["colour"]), people().schema, epsilon=1)


def simulated(*arguments: Any, **options: Any) -> object:
    return ask.simulate(*arguments, fleet="columns", **options)


def asked_about_a_file(learner: ask.Learner[Any]) -> object:
    """Ask a file's users, whose columns have names that no field can have."""
    rows = [f'{row % 4},"1,{row:03}",{("Rome", "Oslo")[row % 2]}' for row in range(60)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_text("\n".join(["my rating,spend ($),town?", *rows]))
        return simulated(learner, ask.read(path), epsilon=1)


CALLED: list[tuple[str, Callable[[], object], str]] = [
    (
        "the order",
        lambda: simulated(people(), study()),
        "study: expected a study or a learner, got",
    ),
    (
        "a learner without a budget",
        lambda: simulated(ask.learners.frequency(people().schema["colour"]), people()),
        "epsilon: expected each user's budget with the learner frequency, got none",
    ),
    (
        "a name for people",
        lambda: simulated(study(), "census"),
        "people: expected a population, as askance.read makes it, got str",
    ),
    (
        "a text as seed",
        lambda: simulated(study(), people(), seed="abc"),
        "seed: expected a whole number of 0 or more, got 'abc'",
    ),
    (
        "a text as users",
        lambda: study().plan(n_users="many"),  # type: ignore[arg-type]
        "n_users: expected 0 or more, got 'many'",
    ),
    (
        "people as users",
        lambda: study().plan(people()),  # type: ignore[arg-type]
        "n_users: expected 0 or more, got <Population: ",
    ),
    (
        "a tolerance in percent",
        lambda: ask.learners.frequency(people().schema["colour"], tau=5),
        "tau: expected at most 1, as of shares, got 5",
    ),
    (
        "no label",
        lambda: ask.learners.naive_bayes(ask.Schema("one", age=ask.Integer(0, 9))),
        "label: expected one of the categories which there are none of, got none",
    ),
    (
        "texts as numbers",
        lambda: asked_about_a_file(ask.learners.mean("town?")),
        "mean: column: expected a number or a bit, got 'town?', a category (try my rating); in the"
        " file, town?: 2 different texts, no numbers",
    ),
    (
        "a truth value as users",
        lambda: ask.plan("mean", epsilon=1, users=True, tau=0.1),
        "n_users: expected 0 or more, got True",
    ),
    (
        "a truth value as rows",
        lambda: ask.read("census", users=True),
        "users: expected a whole number of 1 or more, got True",
    ),
    (
        "a truth value as a population",
        lambda: ask.Population.generated("traits", True),
        "population: expected 1 to 1099511627776 users, got True",
    ),
    (
        "a truth value of trials",
        lambda: simulated(study(), people(), trials=True),
        "trials: expected a whole number of 1 or more, got True",
    ),
    (
        "a parameter of no learner",
        lambda: ask.plan("mean", epsilon=1, user=100),
        "mean has no parameter 'user'; it has column, tau,",
    ),
    (
        "a parameter beside a learner",
        lambda: ask.plan(ask.learners.mean("age"), epsilon=1, tau=0.1),
        "plan: settings: expected none with a learner itself, got {'tau': '1/10'}",
    ),
    (
        "a study without a schema",
        lambda: ask.Study(ask.learners.mean("age"), epsilon=1).plan(),
        "study: expected a schema, got none for mean: simulate takes that of the users, and",
    ),
    (
        "a column that was left out",
        lambda: asked_about_a_file(ask.learners.mean("spend ($)")),
        "mean: column: expected one of the fields my rating, got 'spend ($)'; in the file, spend"
        " ($): numbers with commas between thousands in 60 of 60 values, row 1 the first: write",
    ),
    (
        "a path as text",
        lambda: ask.verify_export("nothere.json"),
        "export nothere.json: cannot be read: No such file or directory",
    ),
]


@pytest.mark.parametrize(
    ("call", "answer"), [pytest.param(*case, id=name) for name, *case in CALLED]
)
def test_a_mistake_in_python_is_answered_in_one_line(
    call: Callable[[], object], answer: str
) -> None:
    with pytest.raises(ask.AskanceError) as error:
        call()
    assert str(error.value).startswith(answer)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("median", " (did you mean quantiles, or ranges for all quartiles?)"),
        ("histogram", " (did you mean ranges, or frequency of a category?)"),
        ("naive_bayse", " (did you mean naive_bayes?)"),
        ("_zzz", ""),
    ],
)
def test_a_learner_by_another_name_is_hinted_at(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(ask.learners, name)
    assert str(error.value) == f"module 'askance.learners' has no attribute {name!r}{hint}"
