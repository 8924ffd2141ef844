"""Titles of studies, and the words by which they are found."""

from __future__ import annotations

from typing import Any

import pytest

from askance_aggregator.encoding import encode_study
from askance_aggregator.names import named_schema
from askance_aggregator.titles import index_of, title_of, words_of
from askance_client.messages import Conduct, StudyTerms
from askance_client.queries import Category, Integer, Label, Schema

_PARTS: dict[str, Any] = {
    "age": Integer(0, 90),
    "school": Category(("none", "some")),
    "site": Category(("north", "south")),
    "town": Category(("a", "b")),
}
PEOPLE = Schema("people", 1, **_PARTS)
PUPILS = Schema("pupils", 1, education=Label(("school", "college")), **_PARTS)
NAMED = named_schema(PEOPLE, {"age": "age (years)"})


def terms(learner: str, schema: Schema, fields: str, purpose: str, **parameters: str) -> StudyTerms:
    return StudyTerms(
        nonce=bytes(16),
        learner=learner,
        learner_version=1,
        parameters=tuple(sorted(parameters.items())),
        schema=schema,
        budget_nano_nats=1,
        expires_unix_s=1,
        purpose=purpose,
        conduct=Conduct(),
        fields=tuple(sorted(fields.split())),
    )


@pytest.mark.parametrize(
    ("study", "title"),
    [
        (("frequency", PEOPLE, "school", "Who went to school"), "Who went to school"),
        (("frequency", PEOPLE, "school", "  two \t words\n"), "two words"),
        (("frequency", PEOPLE, "school", "a\0b \x1b[2J\u202e \x7f c"), "ab [2J c"),
        (("frequency", PEOPLE, "school", " \0 \x7f"), "Frequency of school"),
        (("frequency", PEOPLE, "school", ""), "Frequency of school"),
        (("frequency", PEOPLE, "school", " \n"), "Frequency of school"),
        (("decision-tree", PUPILS, "education age school site", ""), "Decision tree of education"),
        (("mean", NAMED, "age", ""), "Mean of age (years)"),
        (("k-means", PEOPLE, "age", ""), "K-means of age"),
        (("naive-bayes", PUPILS, "education age", ""), "Naive Bayes of education"),
        (("linear-svm", PUPILS, "education age", ""), "Linear SVM of education"),
        (("pca", PEOPLE, "age school site town", ""), "PCA of people"),
        (("marginals", PEOPLE, "age school site", ""), "Marginals of age, school, site"),
        (("masked-parity", PEOPLE, "", ""), "Masked parity of people"),
        (("of-a-visitor", PEOPLE, "age", ""), "Of a visitor of age"),
        (("frequency", PEOPLE, "age", "word " * 20), ("word " * 20).strip()),
        (("frequency", PEOPLE, "age", "word " * 21), ("word " * 20).strip() + "…"),
        (("frequency", PEOPLE, "age", "one, " * 21), ("one, " * 19) + "one…"),
        (("frequency", PEOPLE, "age", "x" * 101), "x" * 99 + "…"),
    ],
)
def test_a_title_is_the_purpose_or_made(study: tuple[str, Schema, str, str], title: str) -> None:
    assert title_of(terms(*study)) == title


@pytest.mark.parametrize(
    ("parameters", "title"),
    [
        ({"label": "town"}, "Decision tree of town"),
        ({"target": "age"}, "Decision tree of age"),
        ({"column": "age", "group": "site"}, "Decision tree of age by site"),
    ],
)
def test_a_field_that_is_named_for_the_prediction_comes_first(
    parameters: dict[str, str], title: str
) -> None:
    study = terms("decision-tree", PEOPLE, "age site", "", **parameters)
    assert title_of(study) == title


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("... !", ()),
        ("Who, WHO went?", ("who", "went")),
        ("Straße Übung", ("strasse", "übung")),
        ("a\x00b\x7fc", ("a", "b", "c")),
        ("x" * 40, ("x" * 32,)),
    ],
)
def test_words(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


def test_the_words_of_a_study_are_those_of_purpose_learner_and_columns() -> None:
    study = terms("naive-bayes", PUPILS, "education age", "Who stays on?")
    assert index_of(encode_study(study)) == (
        "who stays on",
        ("naive", "bayes", "of", "education", "who", "stays", "on"),
    )
    assert index_of(b"of another version") == ("", ())
