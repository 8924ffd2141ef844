"""Days for which a study is kept: signed as parameters, completed and bounded by the operator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from askance_aggregator.encoding import encode_study
from askance_aggregator.studies.keep import MAX_DAYS, UNLIMITED, Keep, keep_of, learner_parameters
from askance_client.codec import decode_study
from askance_client.errors import InvalidParameter
from tests.faults.people import PEOPLE

TERMS = decode_study(PEOPLE.signed(0).study)


def signed(**parameters: str) -> Keep:
    added = {f"keep.{name}": text for name, text in parameters.items()}
    both = tuple(sorted({**dict(TERMS.parameters), **added}.items()))
    return keep_of(decode_study(encode_study(replace(TERMS, parameters=both))))


def test_days_travel_as_parameters_that_are_not_the_learners() -> None:
    assert signed() == UNLIMITED
    assert signed(reports_days="0", results_days="365") == Keep(0, 365)
    keep = Keep(30, 365)
    both = replace(TERMS, parameters=tuple(sorted((*TERMS.parameters, *keep.parameters.items()))))
    assert keep_of(both) == keep
    assert learner_parameters(both) == dict(TERMS.parameters)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "seven", "٧", "9" * 40, str(MAX_DAYS + 1)])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="reports_days: expected"):
        signed(reports_days=text)


def test_reports_are_kept_no_longer_than_results() -> None:
    with pytest.raises(InvalidParameter, match="at most results_days, 5, got 6"):
        Keep(6, 5)


@pytest.mark.parametrize(
    ("own", "default", "most", "expected"),
    [
        (UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED),
        (UNLIMITED, Keep(30, 90), UNLIMITED, Keep(30, 90)),
        (UNLIMITED, UNLIMITED, Keep(30, 90), Keep(30, 90)),
        (UNLIMITED, Keep(30, 90), Keep(10, 60), Keep(10, 60)),
        (Keep(5), Keep(30, 90), Keep(60, 200), Keep(5, 90)),
        (Keep(60), Keep(30, 50), Keep(60, 200), Keep(60, 60)),
        (Keep(None, 10), Keep(30, 90), UNLIMITED, Keep(10, 10)),
        (Keep(None, 10), UNLIMITED, UNLIMITED, Keep(10, 10)),
        (Keep(5, 200), Keep(30, 90), Keep(60, 200), Keep(5, 200)),
    ],
)
def test_an_operators_days_complete_a_studys(
    own: Keep, default: Keep, most: Keep, expected: Keep
) -> None:
    assert own.within(default, most) == expected


@pytest.mark.parametrize(
    ("own", "name"), [(Keep(61), "reports_days"), (Keep(1, 201), "results_days")]
)
def test_more_than_the_bound_is_refused(own: Keep, name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"{name}: expected at most"):
        own.within(UNLIMITED, Keep(60, 200))
