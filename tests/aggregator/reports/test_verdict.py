"""Sentences of verdicts: results made as values, read against tables written by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from askance_aggregator.learners.assessments import Assessment, JointInterval, Measure, Reach
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.presentation import EstimateRow, Null, Presentation
from askance_aggregator.reports.outcomes import study_verdict
from askance_aggregator.reports.verdict import Placement, ResultVerdict, WideBounds, series_sentence

HELD, BROKEN = 0.5, 0.9  # true values in and outside of 0.4 .. 0.6

SHARE, MEAN = "the share of users without a value", "the mean of a"

COVERAGE = {
    # rows, rows that hold, what does not hold beside, liars
    (1, 1, (), False): "The interval (95 %) contains the true value.",
    (1, 0, (), False): "The interval (95 %) does not contain the true value.",
    (1, 1, (SHARE,), False): "The interval (95 %) contains the true value; that of the share of"
    " users without a value does not.",
    (1, 0, (SHARE,), False): "The interval (95 %) does not contain the true value; that of the"
    " share of users without a value does not either.",
    (1, 1, (MEAN, SHARE), False): "The interval (95 %) contains the true value; those of the mean"
    " of a and the share of users without a value do not.",
    (2, 2, (), False): "Both intervals (95 %, joint) contain the true value.",
    (2, 1, (), False): "1 of 2 intervals (95 %, joint) contain the true value.",
    (2, 0, (), False): "0 of 2 intervals (95 %, joint) contain the true value.",
    (3, 3, (), False): "All 3 intervals (95 %, joint) contain the true value.",
    (3, 2, (SHARE,), False): "2 of 3 intervals (95 %, joint) contain the true value; that of"
    " the share of users without a value does not either.",
    (1, 1, (), True): "The interval (95 %, for honest answers) contains the true value.",
    (3, 1, (), True): "1 of 3 intervals (95 %, joint, for honest answers) contain the true value.",
}

COMPARED = {
    # guess, one row, shares
    ("far", True, False): "Error 0.05; of a constant guess 0.4.",
    ("far", True, True): "Error 5 %; of a constant guess 40 %.",
    ("far", False, False): "Error 0.05; of a constant guess 0.4.",
    ("far", False, True): "Error 5 %; of a constant guess 40 %.",
    ("half", True, False): "Nearer to guessing than to exact answers: error 0.3; of a constant"
    " guess 0.4.",
    ("half", True, True): "Nearer to guessing than to exact answers: error 30 %; of a constant"
    " guess 40 %.",
    ("half", False, False): "Nearer to guessing than to exact answers: error 0.3; of a constant"
    " guess 0.4.",
    ("half", False, True): "Nearer to guessing than to exact answers: error 30 %; of a constant"
    " guess 40 %.",
    ("near", True, False): "Error 0.05; of a constant guess 0.025, which happens to be near, too.",
    ("near", True, True): "Error 5 %; of a constant guess 2.5 %, which happens to be near, too.",
    ("near", False, False): "Error 0.05; of a constant guess 0.025, which happens to be near, too.",
    ("near", False, True): "Error 5 %; of a constant guess 2.5 %, which happens to be near, too.",
    ("inside", True, False): "No better than guessing at this size: a constant guess lies in the"
    " interval, too (error 0.05; of the guess 0.075).",
    ("inside", True, True): "No better than guessing at this size: a constant guess lies in the"
    " interval, too (error 5 %; of the guess 7.5 %).",
    ("inside", False, False): "No better than guessing at this size: a constant guess lies in the"
    " intervals, too (error 0.05; of the guess 0.075).",
    ("inside", False, True): "No better than guessing at this size: a constant guess lies in the"
    " intervals, too (error 5 %; of the guess 7.5 %).",
    ("whole", True, False): "Nothing was learned: the interval is as wide as before any user was"
    " asked (error 0.05; of a constant guess 0.075).",
    ("whole", True, True): "No better than guessing at this size: a constant guess lies in the"
    " interval, too (error 5 %; of the guess 7.5 %).",
    ("whole", False, False): "Nothing was learned: the intervals are as wide as before any user was"
    " asked (error 0.05; of a constant guess 0.075).",
    ("whole", False, True): "No better than guessing at this size: a constant guess lies in the"
    " intervals, too (error 5 %; of the guess 7.5 %).",
}

SUCCESSES = {
    1: "All intervals contain the truth in 1 of 3 trials.",
    2: "All intervals contain the truth in 2 of 3 trials.",
}

FIGURES = {
    # error, baseline, half the widest interval before any user was asked, whether one is excluded
    "far": (0.05, 0.4, 0.5, True),
    "half": (0.3, 0.4, 0.5, True),
    "near": (0.05, 0.025, 0.5, False),
    "inside": (0.05, 0.075, 0.3, False),
    "whole": (0.05, 0.075, 0.1, False),
}


def estimates(rows: int, *, shares: bool = False, null: Null | None = None) -> Presentation:
    """Return rows of the estimate 0.5 with the interval 0.4 .. 0.6."""
    found = tuple(EstimateRow(f"e{number}", 0.5, 0.4, 0.6) for number in range(rows))
    return Presentation(found, shares=shares, null=null)


def judged(truth: tuple[float, ...], guess: str, *beside: JointInterval) -> Assessment:
    """Return the assessment of such rows."""
    error, baseline, unasked, excludes = FIGURES[guess]
    success = all(true == HELD for true in truth) and all(one.held for one in beside)
    reach = Reach(0.1, unasked, excludes)
    return Assessment(success, error, truth, baseline=baseline, reach=reach, beside=beside)


RESULTS = [
    (key, guess, shares, trials)
    for key, guess, shares, trials in product(COVERAGE, FIGURES, (False, True), (1, 3))
]


def test_two_hundred_results_are_read() -> None:
    assert len(RESULTS) >= 200


@pytest.mark.parametrize("guess", FIGURES)
def test_a_result_s_sentences_are_those_of_the_tables(guess: str) -> None:
    for key, _, shares, trials in (one for one in RESULTS if one[1] == guess):
        rows, held, broken, lying = key
        truth = (HELD,) * held + (BROKEN,) * (rows - held)
        first = judged(truth, guess, *(JointInterval(name, False) for name in broken))
        right = judged((HELD,) * rows, guess)
        verdict = ResultVerdict(
            estimates(rows, shares=shares),
            0.95,
            users=100,
            assessments=(first, *(right, judged((BROKEN,) * rows, guess))[: trials - 1]),
            reference=0.0,
            success="all intervals contain the truth",
            lying=lying,
        )
        told = [COVERAGE[key]]
        if guess == "whole" and not shares and held == rows and not broken:
            told = []  # an interval that excludes nothing is not praised for what it contains
        if trials == 3:
            told.append(SUCCESSES[2 if first.success else 1])
        told.append(COMPARED[guess, rows == 1, shares])
        assert str(verdict) == " ".join(told), (key, guess, shares, trials)


def compared(
    row: EstimateRow, null: Null, truth: float | None, whole: tuple[float, float] | None
) -> str:
    """Return the sentences on an estimate that is compared with 0; without a truth: a study's."""
    reach = Reach((row.high - row.low) / 2, 1.0, excludes_guess=not row.low <= 0 <= row.high)
    found = () if truth is None else (Assessment(True, 0.1, (truth,), baseline=0.1, reach=reach),)
    shown = Presentation((row,), null=null, whole=whole)
    return str(ResultVerdict(shown, 0.95, users=100, assessments=found))


UNIT = (-1.0, 1.0)
CORRELATION = "the correlation"


@pytest.mark.parametrize(
    ("row", "p_value", "truth", "whole", "expected"),
    [
        (
            *(EstimateRow("c", 0.5, -1.0, 1.0), 1.0, 0.8, UNIT),
            "The correlation cannot be told from 0 at this size: its interval is all that is"
            " possible. Error 0.1; of a constant guess 0.1.",
        ),
        (
            *(EstimateRow("c", 0.5, -1.0, 1.0), 1.0, None, UNIT),
            "The correlation cannot be told from 0 at this size: its interval is all that is"
            " possible.",
        ),
        (
            *(EstimateRow("c", 0.1, -0.2, 0.4), 0.42, 0.05, UNIT),
            "The interval (95 %) contains the true value. The correlation cannot be told from 0 at"
            " this size (p <= 0.42): the true value, 0.05, is less than the half width."
            " Error 0.1; of a constant guess 0.1.",
        ),
        (
            *(EstimateRow("c", 0.1, -0.2, 0.4), 0.42, 0.39, UNIT),
            "The interval (95 %) contains the true value. The correlation cannot be told from 0 at"
            " this size (p <= 0.42): its interval holds 0."
            " Error 0.1; of a constant guess 0.1.",
        ),
        (
            *(EstimateRow("c", 0.1, -0.2, 0.4), None, None, UNIT),
            "The interval contains the true value with a confidence of 95 %. The correlation"
            " cannot be told from 0 at this size: its interval holds 0.",
        ),
        (
            *(EstimateRow("c", 0.3, 0.2, 0.4), 0.003, 0.25, UNIT),
            "The interval (95 %) contains the true value. The correlation differs from 0"
            " (p <= 0.003). Error 0.1; of a constant guess 0.1.",
        ),
        (
            *(EstimateRow("c", 0.3, -0.1, 0.7), 0.04, None, UNIT),
            "The interval contains the true value with a confidence of 95 %. The correlation"
            " differs from 0 (p <= 0.04), though its interval, which is wider than the test needs,"
            " reaches it.",
        ),
        (
            *(EstimateRow("d", 3.0, -5.0, 11.0), 0.6, None, None),
            "The interval contains the true value with a confidence of 95 %. The correlation"
            " cannot be told from 0 at this size (p <= 0.6): its interval holds 0.",
        ),
    ],
)
def test_an_estimate_is_told_from_zero_or_not_and_why(
    row: EstimateRow,
    p_value: float | None,
    truth: float | None,
    whole: tuple[float, float] | None,
    expected: str,
) -> None:
    assert compared(row, Null(CORRELATION, p_value=p_value), truth, whole) == expected


def test_a_p_value_of_a_law_is_no_upper_bound() -> None:
    null = Null("Cramér's V", p_value=0.2, asymptotic=True)
    told = compared(EstimateRow("v", 0.1, 0.0, 0.3), null, None, (0.0, 1.0))
    assert "Cramér's V cannot be told from 0 at this size (p = 0.2, asymptotic)" in told


IN_WAVES = "users were asked in waves"
FOUND = Null(CORRELATION, p_value=0.003, asymptotic=True, detectable=0.084)
TOLD = "The interval contains the true value with a confidence of 95 %"


@pytest.mark.parametrize(
    ("null", "truth", "asymptotic", "whole", "expected"),
    [
        (
            *(
                Null(CORRELATION, p_value=0.003, asymptotic=True, detectable=0.084),
                0.25,
                True,
                UNIT,
            ),
            "The interval (95 %, asymptotic) contains the true value. The correlation differs from"
            " 0 (p = 0.003, asymptotic). So many users find an effect of 0.084 with a chance of"
            " about 80 %. Error 0.1; of a constant guess 0.3.",
        ),
        (
            *(
                Null(CORRELATION, p_value=0.003, asymptotic=True, detectable=0.084),
                None,
                True,
                UNIT,
            ),
            f"{TOLD} (asymptotic). The correlation differs from"
            " 0 (p = 0.003, asymptotic). So many users find an effect of 0.084 with a chance of"
            " about 80 %.",
        ),
        (
            *(Null(CORRELATION, p_value=0.003, asymptotic=True, detectable=1.4), None, True, UNIT),
            f"{TOLD} (asymptotic). The correlation differs from"
            " 0 (p = 0.003, asymptotic). So many users find no possible effect with a chance of"
            " about 80 %.",
        ),
        (
            *(Null("the difference", p_value=0.003, detectable=1.4), None, False, None),
            f"{TOLD}. The difference differs from 0 (p <= 0.003). So many users find an effect of"
            " 1.4 with a chance of about 80 %.",
        ),
        (
            *(Null(CORRELATION, p_value=0.003, undetermined=IN_WAVES), None, False, UNIT),
            f"{TOLD}. The correlation differs from 0 (p <= 0.003). No asymptotic law is"
            " used: users were asked in waves.",
        ),
        (
            *(Null(CORRELATION, p_value=0.003, asymptotic=True, undetermined="few"), None, False),
            UNIT,
            f"{TOLD}. The correlation differs from 0 (p = 0.003, asymptotic). The interval is not"
            " asymptotic: few.",
        ),
    ],
)
def test_an_asymptotic_statement_says_so_and_what_it_would_find(
    null: Null,
    truth: float | None,
    asymptotic: bool,
    whole: tuple[float, float] | None,
    expected: str,
) -> None:
    row = EstimateRow("c", 0.3, 0.2, 0.4)
    reach = Reach(0.1, 1.0, excludes_guess=True)
    found = () if truth is None else (Assessment(True, 0.1, (truth,), baseline=0.3, reach=reach),)
    shown = Presentation((row,), null=null, whole=whole, asymptotic=asymptotic)
    assert str(ResultVerdict(shown, 0.95, users=100, assessments=found)) == expected


LEFT, WRONG, OTHER = Measure.UNEXPLAINED, Measure.LABELS, Measure.OTHER


@pytest.mark.parametrize(
    ("measure", "error", "baseline", "reference", "margin", "expected"),
    [
        (*(LEFT, 0.27, 1.0, 0.2, 0.01), "Better than guessing: R^2 0.73; guessing 0.00; exact"
         " answers 0.80."),
        (*(LEFT, 1.31, 1.0, 0.2, 0.01), "No better than guessing: R^2 -0.31; guessing 0.00; exact"
         " answers 0.80."),
        (*(LEFT, 0.27, 1.0, None, 0.01), "Better than guessing: R^2 0.73; guessing 0.00."),
        (*(LEFT, 0.9, 1.0, 0.2, 0.01), "Better than guessing, but nearer to that than to exact"
         " answers: R^2 0.10; guessing 0.00; exact answers 0.80."),
        (*(LEFT, 12000.0, 1.0, 0.2, 0.01), "No better than guessing: R^2 -1.2e+04; guessing 0.00;"
         " exact answers 0.80."),
        (*(WRONG, 0.0, 0.167, 0.0, 0.31), "Measured on too few rows to be told from guessing: 0 %"
         " of the labels are wrong; guessing 16.7 %; exact answers 0 %."),
        (*(WRONG, 0.23, 0.237, 0.18, 0.01), "No better than guessing: 23 % of the labels are wrong;"
         " guessing 23.7 %; exact answers 18 %."),
        (*(WRONG, 0.241, 0.237, 0.236, 0.01), "No better than guessing: 24.1 % of the labels are"
         " wrong; guessing 23.7 %; exact answers are no better (23.6 %): other columns or another"
         " learner could be."),
        (*(WRONG, 0.16, 0.237, 0.15, 0.01), "Better than guessing: 16 % of the labels are wrong;"
         " guessing 23.7 %; exact answers 15 %."),
        (*(OTHER, 0.94, 1.0, 0.438, 0.1), "No better than guessing: error 0.94; guessing 1; exact"
         " answers 0.438."),
        (*(OTHER, 1e-15, 1.0, 0.0, 0.1), "Better than guessing: error 0; guessing 1; exact answers"
         " 0."),
        (*(OTHER, 2345.6, 2800.0, None, 0.0), "Better than guessing: error 2,346; guessing 2,800."),
    ],
)  # fmt: skip
def test_an_error_is_stated_in_its_measure(
    measure: Measure,
    error: float,
    baseline: float,
    reference: float | None,
    margin: float,
    expected: str,
) -> None:
    found = Assessment(None, error, baseline=baseline, margin=margin, measure=measure)
    verdict = ResultVerdict(Presentation(), 0.95, 100, assessments=(found,), reference=reference)
    assert str(verdict) == expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (
            ResultVerdict(estimates(1), 0.95, 100, answered=False),
            "Worth nothing: no user answered.",
        ),
        (
            ResultVerdict(
                estimates(1), 0.95, 100, assessments=(judged((HELD,), "far"),), answered=False
            ),
            "Worth nothing: no user answered.",
        ),
        (
            ResultVerdict(estimates(1), 0.9, 100),
            "The interval contains the true value with a confidence of 90 %.",
        ),
        (
            ResultVerdict(estimates(2), 0.95, 100),
            "Both intervals contain the true values, jointly, with a confidence of 95 %.",
        ),
        (
            ResultVerdict(estimates(16), 0.95, 100),
            "All 16 intervals contain the true values, jointly, with a confidence of 95 %.",
        ),
        (
            ResultVerdict(estimates(1), 0.95, 100, reused=7),
            "The interval contains the true value, of the time when each answer was first given,"
            " with a confidence of 95 %.",
        ),
        (
            ResultVerdict(estimates(1), 0.95, 100, unasked=1.0),
            "Nothing was learned: the interval is as wide as before any user was asked.",
        ),
        (
            ResultVerdict(estimates(2), 0.95, 100, unasked=1.04),
            "Nothing was learned: the intervals are as wide as before any user was asked.",
        ),
        (
            ResultVerdict(Presentation(lines=("r = 01",)), 0.95, 100),
            "",
        ),
        (
            ResultVerdict(Presentation(), 0.95, 100, assessments=(Assessment(None, None),)),
            "Not judged: these users have no target, and no rows without a user were kept"
            " (in Python: held_out=1/5 where the data is read).",
        ),
        (
            ResultVerdict(Presentation(), 0.95, 100, assessments=(Assessment(None, 0.25),)),
            "Error 0.25; the error of a constant guess is not known.",
        ),
        (
            ResultVerdict(
                Presentation(), 0.95, 9, assessments=(Assessment(True, 0.0, baseline=0.438),)
            ),
            "Right; guessing: error 0.438.",
        ),
        (
            ResultVerdict(
                estimates(1),
                0.95,
                100,
                assessments=(judged((HELD,), "inside"),),
                advice=("4,000 users (within 0.02)",),
                warnings=("half of column a is not in the schema",),
            ),
            "The interval (95 %) contains the true value. No better than guessing at this size: a"
            " constant guess lies in the interval, too (error 0.05; of the guess 0.075). What would"
            " help, by the planner: 4,000 users (within 0.02). But half of column a is not in the"
            " schema.",
        ),
    ],
)
def test_other_results_have_these_sentences(verdict: ResultVerdict, expected: str) -> None:
    assert str(verdict) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (0.2, "exact answers 0.80; a constant: so few users at this epsilon can tell no more."),
        (0.995, "exact answers are no better (0.01): other columns or another learner could be."),
    ],
)
def test_few_users_are_no_cause_where_exact_answers_are_no_better(
    reference: float, expected: str
) -> None:
    summary = "a constant: so few users at this epsilon can tell no more"
    found = Assessment(None, 1.0, baseline=1.0, margin=0.01, measure=LEFT, summary=summary)
    shown = ResultVerdict(Presentation(), 0.95, 100, assessments=(found,), reference=reference)
    assert str(shown) == f"No better than guessing: R^2 0.00; guessing 0.00; {expected}"


def test_no_result_contradicts_itself() -> None:
    """A success and a miss, one number and "each", two and "all" are never in one text."""
    for key, guess, shares, trials in RESULTS:
        rows, held, broken, lying = key
        truth = (HELD,) * held + (BROKEN,) * (rows - held)
        found = judged(truth, guess, *(JointInterval(name, False) for name in broken))
        shown = estimates(rows, shares=shares)
        told = str(ResultVerdict(shown, 0.95, 9, assessments=(found,) * trials, lying=lying))
        assert "misses" not in told
        assert "All 2 " not in told
        assert "each within" not in told
        assert told.count("rror ") == 1, "the error is stated once"


GONE, SOME = MissingShare(0.167, 0.0, 0.529), MissingShare(0.25, 0.2, 0.3)


@pytest.mark.parametrize(
    ("missing", "absent", "expected"),
    [
        ([("", GONE)], (), ["users without a value: none found (at most 52.9 %)"]),
        ([("", GONE)], (0.0,), ["users without a value: none found (at most 52.9 %, true 0 %)"]),
        ([("", GONE)], (0.04,), ["users without a value: none found (at most 52.9 %, true 4 %)"]),
        (
            [("", SOME)],
            (),
            [
                "over users who have a value; 25 % of users have none (20 % .. 30 %, joint with the"
                " estimates)"
            ],
        ),
        (
            [("", SOME)],
            (0.243,),
            [
                "over users who have a value; 25 % of users have none (20 % .. 30 %, joint with the"
                " estimates, true 24.3 %)"
            ],
        ),
        ([("", MissingShare(0.0, 0.0, 0.1))], (), []),
        (
            [("", MissingShare(0.0, 0.0, 0.1))],
            (0.02,),
            ["users without a value: none found (at most 10 %, true 2 %)"],
        ),
        (
            [("age", GONE), ("pay", SOME), ("hours", MissingShare(0.1, 0.0, 0.6))],
            (0.0, 0.2, 0.1),
            [
                "pay: over users who have a value; 25 % of users have none (20 % .. 30 %, joint"
                " with the estimates, true 20 %)",
                "age, hours: users without a value: none found (at most 60 %, true 10 %)",
            ],
        ),
    ],
)
def test_a_missing_share_that_may_be_none_is_none_found(
    missing: list[tuple[str, MissingShare]], absent: tuple[float, ...], expected: list[str]
) -> None:
    shown = Presentation(missing=tuple(missing))
    found = (Assessment(None, 0.1, absent=absent),) if absent else ()
    assert list(ResultVerdict(shown, 0.95, 100, assessments=found).missing_notes) == expected


@pytest.mark.parametrize(
    ("assessment", "reference", "lying", "placement", "helped"),
    [
        (Assessment(None, 0.23, baseline=0.237, margin=0.01), 0.15, False, "NO_BETTER", True),
        (Assessment(None, 0.23, baseline=0.237, margin=0.01), 0.15, True, "NO_BETTER", False),
        (Assessment(None, 0.24, baseline=0.237, margin=0.01), 0.236, False, "NO_BETTER", False),
        (Assessment(None, 0.23, baseline=0.237, margin=0.001), 0.15, False, "FAR", True),
        (Assessment(None, 0.23, baseline=0.237, margin=0.001), None, False, "BETTER", False),
        (Assessment(None, 0.16, baseline=0.237, margin=0.01), 0.15, False, "BETTER", False),
        (Assessment(True, 0.0, baseline=0.5), 0.0, False, "RIGHT", False),
        (Assessment(False, 0.1, baseline=0.5), 0.0, False, "BETTER", False),
        (Assessment(None, 0.1), 0.0, False, "UNKNOWN", False),
        (Assessment(None, None), None, False, "UNKNOWN", False),
        (
            Assessment(False, 0.3, baseline=0, reach=Reach(0.1, 0.5, False)),
            *(0, False, "NO_BETTER", False),
        ),
        # A narrow interval that holds the guess, a wide one, and one that excludes it.
        (
            Assessment(True, 0.1, baseline=0, reach=Reach(0.1, 0.5, False)),
            *(0, False, "NEAR_GUESS", False),
        ),
        (
            Assessment(True, 0.1, baseline=0.3, reach=Reach(0.4, 0.5, False)),
            *(0, False, "NO_BETTER", True),
        ),
        (
            Assessment(True, 0.1, baseline=0.3, reach=Reach(0.2, 0.5, True)),
            *(0, False, "BETTER", False),
        ),
    ],
)
def test_an_error_is_placed_between_a_guess_and_exact_answers(
    assessment: Assessment, reference: float | None, lying: bool, placement: str, helped: bool
) -> None:
    shown = Presentation()
    verdict = ResultVerdict(
        shown, 0.95, 9, assessments=(assessment,), reference=reference, lying=lying
    )
    assert verdict.placement is Placement[placement]
    assert verdict.helped_by_users is helped


def test_a_series_states_the_confidence_of_all_epochs() -> None:
    assert series_sentence(4, 0.95) == (
        "All intervals of all 4 epochs contain the true values, jointly, with a confidence of 95 %:"
        " the level of each epoch was fixed before the first was asked."
    )


@pytest.mark.parametrize(
    ("wide", "expected"),
    [
        (
            WideBounds("delay", (0, 77), (0, 4), (0, 20), 0.02, 0.412, -0.2034),
            "not private, read from the data: half of the users lie within 0 .. 4 of the bounds"
            " 0 .. 77 of delay; with bounds 0 .. 20 the interval would be about +- 0.41; 2 % of"
            " users are clamped and the mean moves by about -0.2",
        ),
        (
            WideBounds("gain", (0, 99_999), (0, 0), (0, 15_000), 0.019, 199.7, 440.2, "difference"),
            "not private, read from the data: half of the users have the value 0, within the bounds"
            " 0 .. 99,999 of gain; with bounds 0 .. 15,000 the interval would be about +- 200;"
            " 1.9 % of users are clamped and the difference moves by about 440",
        ),
        (
            WideBounds("rate", (0, 8), (0.25, 0.5), (0, 1), 0.0),
            "not private, read from the data: half of the users lie within 0.25 .. 0.5 of the"
            " bounds 0 .. 8 of rate; with bounds 0 .. 1 its noise would be 8 times smaller, and"
            " 0 % of users are clamped",
        ),
    ],
)
def test_bounds_that_are_far_too_wide_are_named(wide: WideBounds, expected: str) -> None:
    assert str(wide) == expected


STUDY = {"confidence": 0.95, "users": 20, "epsilon": {"budget": 1.0}, "answers": 20}
NOTHING = "Nothing was learned: the interval is as wide as before any user was asked."
SURE = "The interval contains the true value with a confidence of 95 %."


@pytest.mark.parametrize(
    ("within", "unasked", "expected"),
    [
        ([31.0], [31.0], NOTHING),
        ([30.0], [31.0], NOTHING),
        ([7.0], [31.0], SURE),
        ([31.0, 7.0], [31.0, 31.0], SURE),  # of two answers one tells something
        ([31.0], None, SURE),  # as an earlier version has it
        ([0.0], [31.0], SURE),
        ([], [31.0], SURE),
    ],
)
def test_a_deployed_study_that_has_learned_nothing_says_so(
    within: list[float], unasked: list[float] | None, expected: str
) -> None:
    content = {
        **STUDY,
        "bounds": [{"within": one} for one in within],
        **({} if unasked is None else {"unasked": unasked}),
    }
    shown = Presentation((EstimateRow("mean", 47.0, 18.0, 80.0),))
    assert str(study_verdict(content, shown)) == expected


def shares(*ends: tuple[float, float], group: str = "") -> tuple[EstimateRow, ...]:
    """Return a share in the middle of each interval."""
    return tuple(
        EstimateRow("abcdefgh"[n], (low + high) / 2, low, high, group=group)
        for n, (low, high) in enumerate(ends)
    )


_ALL = "intervals contain the true values, jointly, with a confidence of 95 %."
_HELP = " What would help, by the planner: 4,000 users."
_CONSTANT = (
    "No better than guessing: the model is a constant, for so few users at this epsilon can tell no"
    " more."
)


@pytest.mark.parametrize(
    ("shown", "unasked", "expected"),
    [
        (Presentation(lines=("school",), constant=True), [0.5], _CONSTANT + _HELP),
        (Presentation(lines=("if age: school",)), [0.5], ""),
        (
            Presentation(shares((0.5, 0.6), (0.1, 0.3), (0.2, 0.4), (0.0, 0.05)), shares=True),
            [0.5],
            f"All 4 {_ALL} They tell apart, from most to least: a; c and b; d.",
        ),
        (
            Presentation(shares((0.9, 1), (0.7, 0.8), (0.5, 0.6), (0.3, 0.4)), shares=True),
            [0.5],
            f"All 4 {_ALL} They tell all 4 apart.",
        ),
        (
            Presentation(
                shares((0.9, 1), (0.7, 0.8), (0.5, 0.6), (0.0, 0.2), (0.1, 0.2)), shares=True
            ),
            [0.5],
            f"All 5 {_ALL} They tell apart, from most to least: a; b; c; 2 more.",
        ),
        (
            Presentation(shares((0.1, 0.5), (0.2, 0.6), (0.3, 0.7)), shares=True),
            [0.5],
            f"All 3 {_ALL} They tell no two of them apart.{_HELP}",
        ),
        (  # c and a do not overlap, b overlaps both
            Presentation(shares((0.0, 0.2), (0.1, 0.4), (0.3, 0.7)), shares=True),
            [0.5],
            f"All 3 {_ALL} They tell c from a, and give no order of all.{_HELP}",
        ),
        (  # numbers of different units are not compared
            Presentation(shares((1.0, 2.0), (1.5, 7.0))),
            [400.0],
            f"Both {_ALL}",
        ),
        (
            Presentation(
                (*shares((0.1, 0.5), group="g"), *shares((0.1, 0.5), group="h")), shares=True
            ),
            [0.5],
            f"Both {_ALL}",
        ),
        (
            Presentation(
                shares(*((0.0, 0.9),) * 5), shares=True, ranked=False, apart=(), whole=(0.0, 1.0)
            ),
            [0.5],
            f"All 5 {_ALL} They tell no two of them apart.{_HELP}",
        ),
        (
            Presentation(
                shares(*((0.0, 0.1),) * 5), shares=True, ranked=False, apart=(0, 2, 3)
            ),
            [0.5],
            f"All 5 {_ALL} They tell 3 of them apart.",
        ),
        (
            Presentation(shares((20.0, 60.0))),
            [40.0],
            "The interval contains the true value with a confidence of 95 %. It is only 2 times"
            f" narrower than before any user was asked.{_HELP}",
        ),
        (Presentation(shares((20.0, 60.0))), [80.0], SURE),
        (Presentation(shares((20.0, 60.0))), [20.0], NOTHING + _HELP),
        (
            Presentation(shares((-0.5, 0.5)), whole=(-1.0, 1.0), null=Null("the correlation")),
            [1.0],
            "The interval contains the true value with a confidence of 95 %. The correlation cannot"
            f" be told from 0 at this size: its interval holds 0.{_HELP}",
        ),
    ],
)  # fmt: skip
def test_a_deployed_study_says_what_its_intervals_support_and_what_would_help(
    shown: Presentation, unasked: list[float], expected: str
) -> None:
    content = {
        **STUDY,
        "bounds": [{"within": 20.0 if unasked[0] > 1 else unasked[0] / 8}],
        "unasked": unasked,
        "state": "done",
    }
    verdict = study_verdict(content, shown)
    if verdict.helped_by_users:
        verdict = replace(verdict, advice=("4,000 users",))
    assert str(verdict) == expected


@pytest.mark.parametrize("lying", [False, True])
def test_a_constant_that_could_not_be_judged_is_called_so_and_helped(lying: bool) -> None:
    unjudged = Assessment(None, None, summary="a constant")
    shown = Presentation(lines=("school",), constant=True)
    verdict = ResultVerdict(shown, 0.95, 300, assessments=(unjudged,), lying=lying)
    assert str(verdict) == _CONSTANT
    assert verdict.helped_by_users is not lying
