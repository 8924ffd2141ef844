"""Users from a CSV file: what is inferred, what is missing, one clear error for each defect."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from askance_aggregator.queries import category, evaluate_columns
from askance_client.errors import AskanceError, InvalidRecord
from askance_client.queries import (
    Bits,
    Category,
    Integer,
    Label,
    Real,
    Schema,
)
from askance_client.queries.exact import exact_ratio
from askance_client.records import Table
from askance_simulation.experiments import named, simulate
from askance_simulation.populations import Population
from askance_simulation.populations.arrow_records import ArrowRecords, parquet_records
from askance_simulation.populations.cells import _ends
from askance_simulation.populations.tables import records_of
from askance_simulation.randomness import Seed

PEOPLE = """age, work, pay, income
17, none, 1.5, <=50K
40, ?, 2.25, >50K
, office, .5, <=50K
23, none, NA, >50K
"""
INFERRED = "bounds and labels were inferred from the data file"
ROWS = 50


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "people.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(people: Population) -> list[Mapping[str, Any]]:
    """Return every user's encoded values, None for missing ones."""
    columns = people.columns(0, people.size)
    records = [columns.record(place) for place in range(people.size)]
    return [
        {name: value if record.present[name] else None for name, value in record.values.items()}
        for record in records
    ]


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """Return a file of ROWS users, each with a number of their own."""
    return written(tmp_path, "number\n" + "".join(f"{row}\n" for row in range(ROWS)))


class TestInference:
    def test_whole_numbers_then_numbers_then_categories(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, PEOPLE), label="income")
        assert dict(people.schema.fields) == {
            "age": Integer(17, 40),
            "work": Category(("(missing)", "none", "office")),
            "pay": Real(Fraction(1, 2), Fraction(9, 4)),
            "income": Label(("<=50K", ">50K")),
        }
        assert people.schema.name == people.name == "people"

    def test_bounds_taken_from_people_are_said_to_be(self, tmp_path: Path) -> None:
        path = written(tmp_path, PEOPLE)
        assert Population.from_csv(path).notes == (
            INFERRED,
            "1 value NA of pay was read as missing",
        )
        schema = Schema("known", 1, age=Integer(0, 99))
        assert Population.from_csv(path, schema).notes == ()

    def test_without_a_label_named_there_is_none(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, PEOPLE))
        assert people.schema.fields["income"] == Category(("<=50K", ">50K"))

    def test_a_label_may_be_a_number(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, "x,y\n1,0\n2,1\n"), label="y")
        assert people.schema.fields["y"] == Label(("0", "1"))

    def test_a_column_that_never_varies_or_is_free_text_is_left_out(self, tmp_path: Path) -> None:
        lines = "".join(f"1,name {row},{row}\n" for row in range(1100))
        people = Population.from_csv(written(tmp_path, "same,text,number\n" + lines))
        assert list(people.schema.fields) == ["number"]

    @pytest.mark.parametrize(
        ("texts", "field"),
        [(1_100, "a category"), (65_536, "bits")],
        ids=["a list of labels", "texts without a list"],
    )
    def test_many_texts_are_a_field_if_they_are_named(
        self, tmp_path: Path, texts: int, field: str
    ) -> None:
        names = [f"name {row}" for row in range(texts)]
        lines = "".join(f"{name},{row % 7}\n" for row, name in enumerate(names * 2))
        path = written(tmp_path, "text,number\n" + lines)
        expected = Category(tuple(sorted(names))) if field == "a category" else Bits(288)
        people = Population.from_csv(path, keep=["text"])
        assert people.schema.fields["text"] == expected
        assert people.columns(0, 9).present["text"].all()

    @pytest.mark.parametrize("text", ["1_000", "1e", "0x10", "1/0", "infinity", "two"])
    def test_what_is_encoded_as_no_number_is_inferred_as_none(
        self, tmp_path: Path, text: str
    ) -> None:
        people = Population.from_csv(written(tmp_path, f"a\n1\n{text}\n"))
        assert people.schema.fields["a"] == Category(tuple(sorted(("1", text))))

    def test_a_short_text_that_stands_for_a_long_number_is_not_written_out(
        self, tmp_path: Path
    ) -> None:
        with pytest.raises(AskanceError, match="expected a column of numbers"):
            Population.from_csv(written(tmp_path, "a\n1\n1e999999999\n"))

    @pytest.mark.parametrize("ends", [("1", "1.00000000000000000001"), ("-1e30", "1e-30")])
    def test_bounds_are_exact_where_floats_are_equal(self, ends: tuple[str, str]) -> None:
        low, high = (Fraction(end) for end in ends)
        for order in (ends, ends[::-1]):
            distinct = [exact_ratio(text) for text in order]
            assert _ends([one for one in distinct if one is not None]) == (low, high)

    def test_columns_that_a_schema_does_not_have_are_left_out(self, tmp_path: Path) -> None:
        schema = Schema("known", 1, age=Integer(0, 99))
        people = Population.from_csv(written(tmp_path, PEOPLE), schema)
        assert [row["age"] for row in rows(people)] == [17, 40, None, 23]


CELLS = "ann,30,1.5", "bob,41,2.5", "ann,35,2.0", "bob,39,1.9"
NO_NAMES = (
    "the first line of people.csv looks like values, and was read as the columns' names: write a"
    " line of names above it"
)


class TestFirstLine:
    """A first line of values, where there should be names, is told; names are not taken for it."""

    def told(self, folder: Path, *lines: str) -> list[str]:
        people = Population.from_csv(written(folder, "".join(f"{line}\n" for line in lines)))
        return people.column_notes.about([], people.schema)

    @pytest.mark.parametrize(
        "lines",
        [
            ("ann,36,2.1", *CELLS),
            ("eve,36,2.1", *CELLS),  # a text that no other row has
            (",36,2.1", *CELLS),  # a missing value
            ("ann,30,2.1", *CELLS),
            ("low,yes", "high,no", "low,no", "high,yes"),
            ("5.1", "4.9", "6.2"),
            ("30,41", "28,29", "35,50"),
            ("ann,1985", "bob,1979", "eve,1991"),  # a year among years
            ("1,4,5,2", "4,2,5,1", "5,5,1,2", "1,1,4,4"),  # answers do not rise
            ("3,9", "1,2", "4,12"),
            ("30,40,50.5", "28,29,51", "35,50,20"),
            ("eve,36,2.1", *CELLS * 4),
        ],
    )
    def test_values_are_told(self, tmp_path: Path, lines: tuple[str, ...]) -> None:
        assert self.told(tmp_path, *lines) == [NO_NAMES]

    @pytest.mark.parametrize(
        "lines",
        [
            ("name,age,score", *CELLS),
            ("ann,age,2.1", *CELLS),  # a name above numbers
            ("name,2015,2020", *CELLS),  # years above numbers of another size
            ("0,1,2", "0,3,1", "1,0,5", "2,2,0"),  # as pandas numbers columns
            ("2000,2005,2010", "90,80,7", "9000,8000,7000", "950,8,900"),  # years
            ("2021,2020", "90,80", "9000,8000"),  # the last one first
            ("country,2020", "ch,1900", "at,2050.5", "de,900"),  # one row per name
            ("country,2001,2011,2020", "ch,90,80,7", "at,9000,8000,7000", "de,950,800,900"),
            ("1,2,3,5", "4,2,5,1", "5,5,1,2", "1,1,4,4"),  # items of a survey, the fourth left out
            ("name,2020", *("ann,90", "bob,9000") * 20),  # a text that many rows would have
            ("name,age", *(*("ann,30", "bob,41") * 5, "name,age", "ann,35") * 2),  # two files
            ("school,smokes", "high,no", "low,no", "high,yes"),
            ("low,smokes", "high,no", "low,no", "high,yes"),
        ],
    )
    def test_names_are_not(self, tmp_path: Path, lines: tuple[str, ...]) -> None:
        assert self.told(tmp_path, *lines) == []

    def test_a_data_set_and_a_frame_have_no_first_line(self) -> None:
        table = Table("people", ("36", "2.1"), ("_36", "_2_1"), [["30", "1.5"], ["41", "2.5"]])
        assert not records_of(table).column_notes.odd_lines
        with pytest.raises(InvalidRecord, match=r"expected a column 'age', got 36, 2[.]1$"):
            records_of(table, schema=Schema("known", 1, age=Integer(0, 99)))

    def test_an_error_about_a_column_tells_it_with_a_schema_too(self, tmp_path: Path) -> None:
        path = written(tmp_path, "".join(f"{line}\n" for line in ("ann,36,2.1", *CELLS)))
        with pytest.raises(InvalidRecord) as refused:
            Population.from_csv(path, Schema("known", 1, age=Integer(0, 99)))
        found = f"expected a column 'age', got ann, 36, 2.1; {NO_NAMES}"
        assert str(refused.value) == f"{path}: {found}"
        with pytest.raises(InvalidRecord, match=r"first line of people[.]csv looks"):
            Population.from_csv(path, label="name")

    def test_no_row_of_a_parquet_file_is_read_for_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        parquet.write_table(pa.table({"36": [30, 41], "2.1": [1.5, 2.5]}), tmp_path / "p.parquet")
        people = parquet_records(tmp_path / "p.parquet")
        monkeypatch.setattr(ArrowRecords, "cells", None)
        with pytest.raises(InvalidRecord, match=r"expected a column 'age', got 36, 2[.]1$"):
            records_of(people, schema=Schema("known", 1, age=Integer(0, 99)))

    def test_a_header_line_of_more_than_64_kib_has_no_name_twice(self, tmp_path: Path) -> None:
        """The beginning of the line ended in "123", of "12345": a name twice."""
        names = ",".join(map(str, range(20_000)))
        path = written(tmp_path, f"{names}\n{','.join('1' * 20_000)}\n")
        people = Population.from_csv(path, Schema("known", 1, _19999=Integer(0, 9)))
        assert rows(people) == [{"_19999": 1}]


class TestOddLines:
    """Rows that are no user's are told: totals at the end, and lines of empty cells."""

    def told(self, folder: Path, lines: str) -> list[str]:
        people = Population.from_csv(written(folder, lines))
        return people.column_notes.about([], people.schema)

    def test_a_column_without_a_name_is_called_so(self, tmp_path: Path) -> None:
        lines = "".join(f"{row},{row % 7}\n" for row in range(60))
        assert self.told(tmp_path, f",n\n{lines}") == []
        people = Population.from_csv(written(tmp_path, f",n\n{lines}"))
        (note,) = people.column_notes.left_out
        assert note.startswith("the column without a name is left out: nearly all")

    @pytest.mark.parametrize(
        ("cells", "said"),
        [
            (
                ("R;SQL;C", "R", "SQL; C", "C;R", "R;SQL"),
                "the column a has lists of 3 different values with ';' between them: for the share"
                " of each value, make a column of yes and no of it",
            ),
            (("x, y", "y, x", "x, z", "z, y"), ""),  # pairs
            (("x;y", "z;w", "v", "u;t"), ""),  # as many values as texts
            (("x", "y", "z", "w", "x;y"), ""),
            (
                ("1;3", "1", "2; 3", "3;2", "1;2"),
                "the column a has lists of 3 different values with ';' between them: for the share"
                " of each value, make a column of yes and no of it",
            ),
        ],
    )
    def test_lists_in_cells(self, tmp_path: Path, cells: tuple[str, ...], said: str) -> None:
        lines = "".join(f'"{cell}",{number}\n' for number, cell in enumerate(cells * 9))
        people = Population.from_csv(written(tmp_path, f"a,n\n{lines}"))
        assert people.column_notes.about(["a"], people.schema) == ([said] if said else [])

    @pytest.mark.parametrize(
        ("cells", "form"),
        [
            (("1", "1,3", "1,7", "2", "2,3", "2,7", "3,3", "3,7"), "decimal commas"),
            (("500", "1,000", "1,500", "2,000", "2,500", "3,000"), "commas between thousands"),
        ],
    )
    def test_numbers_with_commas_are_no_lists(
        self, tmp_path: Path, cells: tuple[str, ...], form: str
    ) -> None:
        lines = "".join(f'"{cell}",{number % 7}\n' for number, cell in enumerate(cells * 9))
        people = Population.from_csv(written(tmp_path, f"a,n\n{lines}"))
        (note,) = people.column_notes.about(["a"], people.schema)
        assert note.startswith(f"the column a is of texts: numbers with {form} in ")

    @pytest.mark.parametrize(
        ("form", "days", "is_told"),
        [
            ("{y}-{m:02}-{d:02}", 150, True),
            ("{y}-{m}-{d} 12:30", 150, True),
            ("{d:02}.{m:02}.{y}", 150, True),
            ("{m}/{d}/23", 150, True),
            ("{m}/{d}.23", 150, False),
            ("{d}.{m}.{y}3", 150, False),
            ("{y}-{m:02}-{d:02}", 80, False),
        ],
    )
    def test_many_dates(self, tmp_path: Path, form: str, days: int, is_told: bool) -> None:
        dates = [form.format(y=2023, m=1 + day // 28, d=1 + day % 28) for day in range(days)]
        lines = "".join(f"{date},{number % 7}\n" for number, date in enumerate(dates * 2))
        people = Population.from_csv(written(tmp_path, f"day,n\n{lines}"))
        said = f"the column day has {days} different dates: most shares are too small to be told"
        notes = people.column_notes.about(["day"], people.schema)
        assert [note.startswith(said) for note in notes] == [True] * is_told

    @pytest.mark.parametrize("total", ["Total,,3", "TOTAL:,x,3", ",Grand total,3"])
    def test_a_last_row_of_totals(self, tmp_path: Path, total: str) -> None:
        assert self.told(tmp_path, f"name,kind,n\nann,x,1\nbob,y,2\n{total}\n") == [
            "the last row of people.csv looks like totals, and counts as a user: delete it"
        ]

    @pytest.mark.parametrize("row", ["total,x,1\nann,y,2", "sum,x,1\nsum,y,2", "totally,x,2"])
    def test_a_value_is_no_total(self, tmp_path: Path, row: str) -> None:
        assert self.told(tmp_path, f"name,kind,n\nbob,y,3\n{row}\n") == []

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (
                ",\n",
                "1 row of people.csv has no value and counts as a user: delete it, unless it is a"
                " user's",
            ),
            (
                ",\n , \n,3\n,\n",
                "3 rows of people.csv have no value and count as users: delete those that are no"
                " user's",
            ),
        ],
    )
    def test_rows_of_empty_cells(self, tmp_path: Path, lines: str, said: str) -> None:
        assert self.told(tmp_path, f"name,n\nann,1\n{lines}bob,2\n") == [said]

    @pytest.mark.parametrize(
        "lines", ['n\n1\n""\n2\n', "a,b\n1,2\nNA,NA\n3,4\n", "a,b\n1,\n,2\n3,4\n"]
    )
    def test_a_missing_value_is_no_empty_row(self, tmp_path: Path, lines: str) -> None:
        assert self.told(tmp_path, lines) == []


class TestIdentifiers:
    """Columns of which nearly all values differ are left out by default, and named."""

    LEFT = "is left out: nearly all of its values differ"

    def file(self, folder: Path, users: int = 200, repeated: int = 0) -> Path:
        """Write users with a number, a text and a decimal of their own, an income and an age.

        The first `repeated` users have the number and the text of the last one.
        """
        incomes = np.random.default_rng(5).lognormal(10, 0.5, users).astype(int)
        last = users - 1
        lines = [
            f"{last if row < repeated else row},u{last if row < repeated else row:05},{row}.5,"
            f"{incomes[row] // 10},{row % 60}"
            for row in range(users)
        ]
        return written(folder, "number,code,reading,income,age\n" + "\n".join(lines) + "\n")

    def test_texts_and_whole_numbers_of_their_own_are_left_out_and_named(
        self, tmp_path: Path
    ) -> None:
        people = Population.from_csv(self.file(tmp_path, 1_000))
        assert list(people.schema.fields) == ["reading", "income", "age"]
        for name in ("number", "code"):
            left_out = people.column_notes.left_out
            assert any(f"the column {name} {self.LEFT}" in note for note in left_out)
        about = people.column_notes.about
        assert about(people.schema.fields, people.schema) == ["2 columns are left out (--verbose)"]
        assert about(["age", "income"], people.schema) == []

    @pytest.mark.parametrize(("repeated", "fields"), [(1, 3), (2, 4), (9, 4), (11, 5)])
    def test_nearly_all_is_19_of_20_texts_and_99_of_100_numbers(
        self, tmp_path: Path, repeated: int, fields: int
    ) -> None:
        people = Population.from_csv(self.file(tmp_path, 200, repeated + 1))
        assert len(people.schema.fields) == fields

    @pytest.mark.parametrize("users", [200, 5_000])
    def test_numbers_of_their_own_that_lie_unevenly_are_amounts(
        self, tmp_path: Path, users: int
    ) -> None:
        rng = np.random.default_rng(users)
        columns = {
            "drawn": rng.permutation(users * 100)[:users] + 10**6,
            "amount": rng.lognormal(18, 0.5, users).astype(int),
            "weight": rng.normal(10**9, 10**8, users).astype(int),
            "age": np.arange(users) % 40,
        }
        lines = "".join(
            f"{','.join(map(str, row))}\n" for row in zip(*columns.values(), strict=True)
        )
        people = Population.from_csv(written(tmp_path, ",".join(columns) + "\n" + lines))
        assert list(people.schema.fields) == ["amount", "weight", "age"]

    def test_a_column_that_is_named_is_kept(self, tmp_path: Path) -> None:
        people = Population.from_csv(self.file(tmp_path), keep=["number"])
        assert "number" in people.schema.fields
        assert "code" not in people.schema.fields
        labelled = Population.from_csv(self.file(tmp_path), label="code")
        assert isinstance(labelled.schema.fields["code"], Label)

    @pytest.mark.parametrize(("distinct", "is_noted"), [(800, True), (750, True), (749, False)])
    def test_values_of_one_user_each_are_noted_where_the_question_names_their_column(
        self, tmp_path: Path, distinct: int, is_noted: bool
    ) -> None:
        lines = "".join(f"v{row % distinct},{row % 7}\n" for row in range(1_000))
        people = Population.from_csv(written(tmp_path, f"code,age\n{lines}"))
        of_code = people.column_notes.about(["code"], people.schema)
        told = (
            f"the column code has {distinct} different values in 1,000 rows, most of them of one"
            " user each: no such share can be told from 0; ask about groups of values (a column"
            " made from it), or leave it out"
        )
        assert of_code == ([told] if is_noted else [])
        assert people.column_notes.about(["age"], people.schema) == []

    def test_few_rows_of_many_values_are_not_noted(self, tmp_path: Path) -> None:
        people = Population.from_csv(self.file(tmp_path, 49))
        assert people.column_notes.about(people.schema.fields, people.schema) == []

    def test_of_few_users_all_columns_are_kept(self, tmp_path: Path) -> None:
        assert len(Population.from_csv(self.file(tmp_path, 49)).schema.fields) == 5
        assert len(Population.from_csv(self.file(tmp_path, 50)).schema.fields) < 5

    def test_where_no_other_column_is_left_they_are_kept(self, tmp_path: Path) -> None:
        lines = "".join(f"{row},{9000 - row}\n" for row in range(100))
        people = Population.from_csv(written(tmp_path, "a,b\n" + lines))
        assert list(people.schema.fields) == ["a", "b"]

    def test_a_schema_that_has_them_keeps_them(self, tmp_path: Path) -> None:
        schema = Schema("s", 1, number=Integer(0, 199))
        people = Population.from_csv(self.file(tmp_path), schema)
        assert list(people.schema.fields) == ["number"]

    def test_a_setting_that_names_a_column_keeps_it(self, tmp_path: Path) -> None:
        path = self.file(tmp_path)
        for settings, kept in (({}, False), ({"columns": "number,age"}, True)):
            made = named("mean-vector", epsilon=1, data=path, settings=settings)
            assert ("number" in made.people(Seed.of(0)).schema.fields) is kept

    def test_the_result_names_what_was_left_out(self, tmp_path: Path) -> None:
        made = named("mean-vector", epsilon=8, data=self.file(tmp_path))
        shown = simulate(made.study, made.people, fleet="columns").to_json()
        assert "number" not in shown["hypothesis"]["means"]
        assert any(f"the column number {self.LEFT}" in note for note in shown["column_notes"])


class TestMissingValues:
    def test_they_are_missing_where_they_are_missing(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, PEOPLE), label="income")
        half = 1 << 15  # pay has 16 fractional bits
        assert rows(people) == [
            {"age": 17, "work": 1, "pay": 3 * half, "income": 0},
            {"age": 40, "work": 0, "pay": 4 * half + half // 2, "income": 1},
            {"age": None, "work": 2, "pay": half, "income": 0},
            {"age": 23, "work": 1, "pay": None, "income": 1},
        ]

    @pytest.mark.parametrize("missing", ["", "?", "NA", "NaN", "nan", " ? "])
    def test_all_their_spellings(self, tmp_path: Path, missing: str) -> None:
        people = Population.from_csv(written(tmp_path, f"a,b\n1,1\n{missing},2\n3,1\n"))
        assert [row["a"] for row in rows(people)] == [1, None, 3]
        assert people.schema.fields["a"] == Integer(1, 3)

    @pytest.mark.parametrize("label", ["NA", "NaN", "nan"])
    def test_a_label_of_the_schema_is_never_missing(self, tmp_path: Path, label: str) -> None:
        schema = Schema("known", 1, region=Category(("AS", "EU", label, "(missing)")))
        text = "region\nAS\n" + f"{label}\nEU\n?\n"
        people = Population.from_csv(written(tmp_path, text), schema)
        assert [row["region"] for row in rows(people)] == [0, 2, 1, 3]
        assert people.warnings == {}

    def test_the_result_says_which_texts_were_read_as_missing(self, tmp_path: Path) -> None:
        text = "region,age\nAS,1\nNA,2\nEU,NA\nNA,3\n?,3\n"
        people = Population.from_csv(written(tmp_path, text))
        assert [note for note in people.notes if "missing" in note] == [
            "2 values NA of region were read as missing; a schema that lists the label counts them",
            "1 value NA of age was read as missing",
        ]

    def test_texts_of_several_columns_of_numbers_are_one_note(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, "a,b\n1,NA\nNA,2\n3,NA\n2,1\n"))
        assert people.notes[1:] == ("3 values NA of 2 columns of numbers were read as missing",)

    def test_what_is_infinite_is_missing_in_a_csv_file_as_in_a_parquet_file(
        self, tmp_path: Path
    ) -> None:
        people = Population.from_csv(written(tmp_path, "a,b\n1,1\ninf,2\n-inf,3\n3,1\n"))
        assert [row["a"] for row in rows(people)] == [1, None, None, 3]
        assert people.schema.fields["a"] == Integer(1, 3)

    def test_a_category_that_the_schema_does_not_list_is_missing(self, tmp_path: Path) -> None:
        schema = Schema("known", 1, work=Category(("office", "field")))
        people = Population.from_csv(written(tmp_path, PEOPLE), schema, most_outside=1)
        assert [row["work"] for row in rows(people)] == [None, None, 0, None]

    def test_who_has_none_is_answered_by_the_public_default(self, tmp_path: Path) -> None:
        schema = Schema("known", 1, work=Category(("office", "none")))
        people = Population.from_csv(written(tmp_path, PEOPLE), schema)
        query = category(people.schema["work"], default=1)
        cells = list(evaluate_columns(query, people.columns(0, people.size)))
        assert cells == [1, query.default, 0, 1]

    def test_a_schema_may_have_the_label_for_them_too(self, tmp_path: Path) -> None:
        schema = Schema("known", 1, work=Category(("office", "none", "(missing)")))
        people = Population.from_csv(written(tmp_path, PEOPLE), schema)
        assert [row["work"] for row in rows(people)] == [1, 2, 0, 1]

    def test_nobody_is_to_be_predicted_to_have_none(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, "a,b\nx,1\n?,2\ny,3\n"), label="a")
        assert people.schema.fields["a"] == Label(("x", "y"))
        assert [row["a"] for row in rows(people)] == [0, None, 1]

    def test_a_label_of_that_very_name_is_one_with_them(self, tmp_path: Path) -> None:
        people = Population.from_csv(written(tmp_path, "a\n(missing)\n?\nx\n"))
        assert people.schema.fields["a"] == Category(("(missing)", "x"))
        assert [row["a"] for row in rows(people)] == [0, 0, 1]


class TestSizes:
    def test_one_user_a_row_in_the_file_s_order(self, numbered: Path) -> None:
        people = Population.from_csv(numbered)
        assert people.size == ROWS
        assert [row["number"] for row in rows(people)] == list(range(ROWS))

    def test_fewer_users_are_a_sample_without_replacement(self, numbered: Path) -> None:
        people = Population.from_csv(numbered, users=20, seed=1)
        found = [row["number"] for row in rows(people)]
        assert len(set(found)) == len(found) == people.size == 20
        assert people.notes == (INFERRED,)

    def test_more_users_are_resampled_and_the_result_says_so(self, numbered: Path) -> None:
        people = Population.from_csv(numbered, users=1000, seed=1)
        found = [row["number"] for row in rows(people)]
        assert people.size == len(found) == 1000
        # A number is never drawn with probability (49/50)^1000 = 1.7e-9.
        assert set(found) == set(range(ROWS))
        assert found != sorted(found)
        assert people.notes == (
            INFERRED,
            f"{ROWS} rows were resampled with replacement to 1000 users",
        )

    def test_a_billion_users_take_the_memory_of_the_rows(self, numbered: Path) -> None:
        tracemalloc.start()
        people = Population.from_csv(numbered, users=10**9, seed=1)
        last = people.columns(10**9 - 1000, 10**9)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 20
        found = {last.record(place).values["number"] for place in range(1000)}
        assert found == set(range(ROWS))  # one is never drawn with probability 1.7e-9
        fewer = Population.from_csv(numbered, users=1000, seed=1).columns(0, 1000)
        first = people.columns(0, 1000)
        assert np.array_equal(
            np.asarray(first.values["number"]), np.asarray(fewer.values["number"])
        )

    @pytest.mark.parametrize("users", [20, ROWS, 1000])
    def test_the_seed_decides_and_parts_are_parts_of_the_whole(
        self, numbered: Path, users: int
    ) -> None:
        people = Population.from_csv(numbered, users=users, seed=1)
        assert rows(people) == rows(Population.from_csv(numbered, users=users, seed=1))
        other = Population.from_csv(numbered, users=users, seed=2)
        assert (rows(people) == rows(other)) == (users == ROWS)
        part = people.columns(5, 15)
        assert [part.record(n).values for n in range(10)] == rows(people)[5:15]


DEFECTS: dict[str, tuple[str | bytes, str]] = {
    "an empty file": ("", "expected a header line, got none"),
    "no header": ("\n1,2\n", "expected a header line, got none"),
    "a header and nobody": ("a,b\n", "expected at least one row, got none"),
    "a short row": ("a,b\n1,2\n3\n", "line 3: expected 2 cells, got 1"),
    "a long row": ("a,b\n1,2,3\n", "line 2: expected 2 cells, got 3"),
    "a column twice": ("a,a\n1,2\n", "expected distinct column names"),
    "other bytes than UTF-8": (b"a,b\n1,\xff\n", "line 2: expected UTF-8"),
    "nothing that varies": (
        "a\n1\n1\n",
        "expected a column of numbers, or of 2 to 1,024 different texts, got none: a: the same",
    ),
    "a value of a million characters": (
        "a\n" + "1" * 1_000_000,
        "line 2: expected cells of at most",
    ),
}


class TestDefects:
    @pytest.mark.parametrize("defect", sorted(DEFECTS))
    def test_each_is_one_clear_line(self, tmp_path: Path, defect: str) -> None:
        content, message = DEFECTS[defect]
        with pytest.raises(InvalidRecord, match=message) as caught:
            Population.from_csv(written(tmp_path, content))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRecord, match="cannot be read: No such file"):
            Population.from_csv(tmp_path / "none.csv")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRecord, match="cannot be read"):
            Population.from_csv(tmp_path)

    def test_a_column_that_the_schema_wants_and_the_file_has_not(self, tmp_path: Path) -> None:
        schema = Schema("known", 1, height=Integer(0, 9))
        with pytest.raises(InvalidRecord, match="expected a column 'height', got age, work, pay"):
            Population.from_csv(written(tmp_path, PEOPLE), schema)

    def test_a_label_that_the_file_has_not(self, tmp_path: Path) -> None:
        with pytest.raises(
            InvalidRecord,
            match="label: expected one of the fields age, work, pay, income, got 'salary'",
        ):
            Population.from_csv(written(tmp_path, PEOPLE), label="salary")

    @pytest.mark.parametrize("users", [0, -5])
    def test_no_users(self, numbered: Path, users: int) -> None:
        with pytest.raises(AskanceError, match=f"users: expected a whole .*, got {users}"):
            Population.from_csv(numbered, users=users)


def test_a_file_with_a_byte_order_mark_is_read_as_one_without(tmp_path: Path) -> None:
    people = Population.from_csv(written(tmp_path, "\ufeff" + PEOPLE))
    assert list(people.schema.fields) == ["age", "work", "pay", "income"]


def test_blank_lines_and_quotes_are_read_as_csv_has_them(tmp_path: Path) -> None:
    people = Population.from_csv(written(tmp_path, 'a,b\r\n1,"x, y"\r\n\r\n2,"z"\r\n'))
    assert people.schema.fields["b"] == Category(("x, y", "z"))
    assert people.size == 2
