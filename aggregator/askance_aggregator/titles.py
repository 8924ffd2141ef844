"""Title of a study: its purpose, or its learner and the columns that it asks about.

Lists, pages and the command line show it in place of a digest. It follows from the signed terms
alone, so that a study of any age has one, and no other place makes one: a store keeps the words by
which a study is found, and a copy of the title for those who read its database.
"""

from __future__ import annotations

import re

from askance_aggregator.encoding import read_terms
from askance_aggregator.names import MAX_NAMED, names_of, subject_of
from askance_client.errors import AskanceError
from askance_client.messages import StudyTerms
from askance_client.queries import Label

MAX_TITLE = 100  # characters: two lines of a heading on a narrow screen
MAX_WORDS = 64  # of a study, by which it is found
_MAX_WORD = 32  # characters
_PREDICTED = ("label", "target")  # parameters that name the field to predict
_SPELT = {"bayes": "Bayes", "pca": "PCA", "svm": "SVM"}
_WORD = re.compile(r"\w+")
_SINGLE = re.compile(r"^(\w)-")  # the hyphen of k-means


def title_of(terms: StudyTerms) -> str:
    """Return a study's title, one line of at most 100 characters that can be printed."""
    title = _line(terms.purpose) or _line(made_title(terms))
    if len(title) <= MAX_TITLE:
        return title
    start = title[:MAX_TITLE]
    return (start.rpartition(" ")[0] or start[:-1]).rstrip(" ,;:.") + "…"


def _line(text: str) -> str:
    """Return the words of a text, without characters that no screen shows."""
    words = ("".join(filter(str.isprintable, word)) for word in text.split())
    return " ".join(word for word in words if word)


def stored_title(study: bytes) -> str:
    """Return the title of a study's bytes; "" if another version has written them."""
    try:
        return title_of(read_terms(study))
    except AskanceError:
        return ""


def made_title(terms: StudyTerms) -> str:
    """Return the learner and the field that it predicts, or its columns; of many, the schema."""
    parameters, schema = dict(terms.parameters), terms.schema
    labels = [name for name in terms.fields if isinstance(schema.fields[name], Label)]
    predicted = [parameters[name] for name in _PREDICTED if parameters.get(name)]
    about = schema.name
    if predicted or len(labels) == 1:
        about = names_of(schema).in_text((predicted or labels)[0])
    elif 0 < len(terms.fields) <= MAX_NAMED:
        about = names_of(schema).in_text(subject_of(schema, terms.fields, parameters))
    words = _SINGLE.sub("\\1\0", terms.learner).replace("-", " ").replace("\0", "-").split(" ")
    name = " ".join(_SPELT.get(word, word) for word in words)
    return f"{name[:1].upper()}{name[1:]} of {about}"


def words_of(text: str) -> tuple[str, ...]:
    """Return the different words of a text in lower case, in its order."""
    words = (word[:_MAX_WORD].casefold() for word in _WORD.findall(text))
    return tuple(dict.fromkeys(words))[:MAX_WORDS]


def index_of(study: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text by which a study is sorted by title, and the words by which it is found.

    The words are those of its purpose, its learner and its columns. A study that another version
    has written, and that cannot be read, has neither.
    """
    try:
        terms = read_terms(study)
    except AskanceError:
        return "", ()
    return (
        " ".join(words_of(title_of(terms))),
        words_of(f"{terms.learner} {made_title(terms)} {terms.purpose}"),
    )
