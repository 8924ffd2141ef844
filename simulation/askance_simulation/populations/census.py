"""A synthetic census: 20,000 invented adults of an invented country.

No record is of a real user, and no share is that of a real country. The columns depend on each
other as those of a census do:

- `region` and `sex` are drawn first, `age` (18 .. 90) by weights that fall from 60 on;
- `education` depends on age, and on whether the region is the capital;
- `occupation` depends on education and sex; it is missing for users who do not work, of whom most
  are above 65 or below 22;
- `hours` per week depend on occupation and sex, and are 0 for users who do not work;
- `income` ("<=50k" or ">50k") depends on education, age, hours, occupation and region.

All draws compare uniform integers with whole-number weights, so the rows are the same on every
machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_simulation.populations.columns import draws
from askance_simulation.populations.sources import Rows, dataset
from askance_simulation.randomness import Seed

ROWS = 20_000
_SEED = 1891  # a year of an early census by machine; any number would do

Codes = NDArray[np.int64]

_REGIONS = {"Capital": 18, "Coast": 24, "Hills": 13, "North": 19, "South": 26}
_SEXES = {"Female": 51, "Male": 49}
_OLDEST, _YOUNGEST, _FALLS_FROM = 90, 18, 60

_EDUCATIONS = ("Primary", "Secondary", "Vocational", "College", "Bachelor", "Master", "Doctorate")
_BY_AGE = (  # weights of the educations up to an age, elsewhere than in the capital
    (22, (7, 52, 17, 18, 6, 0, 0)),
    (34, (6, 26, 20, 15, 22, 10, 1)),
    (49, (9, 29, 22, 14, 17, 8, 1)),
    (64, (16, 34, 22, 12, 11, 4, 1)),
    (90, (33, 36, 16, 7, 6, 2, 0)),
)
_IN_CAPITAL = (6, 8, 7, 10, 15, 18, 20)  # tenths by which the capital changes these weights

_OCCUPATIONS = (
    "Agriculture", "Craft", "Transport", "Service", "Sales", "Clerical", "Technical",
    "Professional", "Manager",
)  # fmt: skip
_BY_EDUCATION = (  # weights of the occupations, a row per education
    (18, 24, 15, 28, 9, 4, 0, 0, 2),
    (8, 21, 13, 22, 16, 12, 3, 1, 4),
    (5, 34, 11, 15, 9, 8, 13, 1, 4),
    (3, 10, 6, 14, 18, 20, 16, 5, 8),
    (1, 3, 2, 6, 13, 14, 17, 28, 16),
    (1, 1, 0, 3, 6, 6, 16, 45, 22),
    (0, 0, 0, 1, 1, 2, 12, 72, 12),
)
_OF_WOMEN = (6, 4, 3, 16, 12, 17, 7, 11, 7)  # tenths by which their occupations differ
_OF_MEN = (13, 16, 17, 6, 8, 5, 12, 9, 12)

_WORKING = ((21, 62), (29, 86), (54, 90), (61, 76), (65, 52), (72, 17), (90, 4))  # in a hundred
_PART_TIME = {"Female": 31, "Male": 9}  # in a hundred of those who work
_LONG_HOURS = (38, 12, 24, 10, 12, 4, 8, 18, 36)  # in a hundred of the others, by occupation

_POINTS_OF_EDUCATION = (0, 3, 5, 6, 11, 14, 17)
_POINTS_OF_OCCUPATION = (0, 3, 2, 0, 3, 2, 5, 6, 9)
_HIGH_INCOME = (1, 2, 3, 5, 7, 10, 14, 19, 25, 32, 40, 49, 58, 67, 75, 82, 88, 92, 95, 97)


@dataset(
    "census",
    f"{ROWS:,} invented adults: age, sex, region, education, occupation, hours, income",
    ("age", "sex", "region", "education", "occupation", "hours", "income"),
)
def census() -> Rows:
    """Make the rows; see the module for the law."""
    words = draws(Seed.of(_SEED) / "census", 0, ROWS, 10)
    region = _drawn(words[:, 0], _same(tuple(_REGIONS.values())))
    woman = _drawn(words[:, 1], _same(tuple(_SEXES.values()))) == 0
    age = _YOUNGEST + _drawn(words[:, 2], _same(_weights_of_ages()))
    education = _drawn(words[:, 3], _weights_of_educations(age, region == 0))
    works = _chance(words[:, 4], _by_age(_WORKING, age))
    tilt = np.where(woman[:, np.newaxis], np.array(_OF_WOMEN), np.array(_OF_MEN))
    occupation = _drawn(words[:, 5], np.array(_BY_EDUCATION)[education] * tilt)
    part_time = _chance(words[:, 6], np.where(woman, _PART_TIME["Female"], _PART_TIME["Male"]))
    hours = np.where(works, _hours(words[:, 7:9], part_time, occupation), 0)
    points = (
        np.array(_POINTS_OF_EDUCATION)[education]
        + np.where(works, np.array(_POINTS_OF_OCCUPATION)[occupation], 0)
        + np.minimum(np.maximum(age - 20, 0), 30) // 5
        + np.clip(hours - 20, 0, 30) // 4
        + np.where(region == 0, 2, 0)
        - 9
    )
    rich = _chance(words[:, 9], np.array(_HIGH_INCOME)[np.clip(points, 0, len(_HIGH_INCOME) - 1)])
    regions, educations, occupations = tuple(_REGIONS), _EDUCATIONS, _OCCUPATIONS
    return [
        [
            str(age[row]),
            "Female" if woman[row] else "Male",
            regions[region[row]],
            educations[education[row]],
            occupations[occupation[row]] if works[row] else "",
            str(hours[row]),
            ">50k" if rich[row] else "<=50k",
        ]
        for row in range(ROWS)
    ]


def _drawn(words: NDArray[np.uint64], weights: NDArray[np.int64]) -> Codes:
    """Draw a code per row by its weights, shape (rows, codes), below 2^31 in sum."""
    ends = np.cumsum(weights, axis=1).astype(np.uint64)
    places = (words >> np.uint64(32)) * ends[:, -1] >> np.uint64(32)
    codes: Codes = (places[:, np.newaxis] >= ends).sum(axis=1, dtype=np.int64)
    return codes


def _same(weights: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the same weights for every row."""
    return np.broadcast_to(np.array(weights, dtype=np.int64), (ROWS, len(weights)))


def _chance(words: NDArray[np.uint64], hundredths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Draw a truth value per row by its chance."""
    places = (words >> np.uint64(32)) * np.uint64(100) >> np.uint64(32)
    return places.astype(np.int64) < hundredths


def _weights_of_ages() -> tuple[int, ...]:
    ages = range(_YOUNGEST, _OLDEST + 1)
    return tuple(100 - 3 * max(0, age - _FALLS_FROM) for age in ages)


def _by_age(steps: tuple[tuple[int, int], ...], age: Codes) -> NDArray[np.int64]:
    """Return the value of the first step whose age is not exceeded."""
    ends = np.array([end for end, _ in steps])
    return np.array([value for _, value in steps])[np.searchsorted(ends, age)]


def _weights_of_educations(age: Codes, capital: NDArray[np.bool_]) -> NDArray[np.int64]:
    ends = np.array([end for end, _ in _BY_AGE])
    usual = np.array([weights for _, weights in _BY_AGE])[np.searchsorted(ends, age)]
    return usual * np.where(capital[:, np.newaxis], np.array(_IN_CAPITAL), 10)


def _hours(
    words: NDArray[np.uint64], part_time: NDArray[np.bool_], occupation: Codes
) -> NDArray[np.int64]:
    """Draw hours per week: 8 .. 30 of part-time work, 43 .. 70 of long hours, else 35 .. 42."""
    # Half of the users with usual hours work 40.
    spread = (words[:, 0] >> np.uint64(32)).astype(np.int64)
    long_hours = _chance(words[:, 1], np.array(_LONG_HOURS)[occupation])
    usual = np.where(spread % 2 == 0, 40, 35 + (spread >> 1) % 8)
    other = np.where(long_hours, 43 + np.minimum(spread % 28, (spread >> 8) % 28), usual)
    return np.where(part_time, 8 + np.maximum(spread % 23, (spread >> 8) % 23), other)
