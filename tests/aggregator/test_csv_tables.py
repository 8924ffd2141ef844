"""Tables as CSV: no cell is a formula, and each text can be read back."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.csv_tables import csv_table
from askance_simulation.frames import write_table

FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('=HYPERLINK("http://example.org";A1)', '\'=HYPERLINK("http://example.org";A1)'),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-1+1", "'-1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("'=1", "''=1"),
        ("＝1+1", "'＝1+1"),
        ("＋1", "'＋1"),
        ("－1", "'－1"),
        ("＠SUM(A1)", "'＠SUM(A1)"),
        (" =1", "' =1"),
        ("\u00a0=1", "'\u00a0=1"),
        ("' =1", "'' =1"),
        (" a=1", " a=1"),
        ("'tis", "'tis"),
        ("a=1", "a=1"),
        ("", ""),
        ("-3.5e-2", "-3.5e-2"),
        ("+7", "+7"),
        (-3, "-3"),
        (-0.25, "-0.25"),
        (None, ""),
        (True, "True"),
    ],
)
def test_a_cell_is_no_formula_and_a_number_stays(value: object, cell: str) -> None:
    (head,), (found,) = csv.reader(StringIO(csv_table([{"=title": value, "b": 1}], ["=title"])))
    assert (head, found) == ("'=title", cell)


def test_no_column_of_a_later_row_is_lost() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 3}]
    assert csv_table(rows) == "a,b\n1,2\n3,\n"
    with pytest.raises(ValueError, match="columns of the first row, got b, c too"):
        csv_table([{"a": 1}, {"b": 2}, {"c": 3}])
    assert csv_table([{"a": 1}, {"a": 2, "b": 3}], ["a"]) == "a\n1\n2\n"


@given(st.text(st.sampled_from("'=+-@＝\t\r\n1a, \""), max_size=6))
def test_each_text_is_read_back_by_the_rule(text: str) -> None:
    table = csv_table([{"title": text, "more": "x"}])
    ((cell, _),) = list(csv.reader(StringIO(table, newline="")))[1:]
    bare = cell.lstrip("'")
    marked = cell.startswith("'") and (bare.lstrip().startswith(FORMULAS) or bare[:1] in FORMULAS)
    assert (cell[1:] if marked else cell) == text
    if cell.lstrip().startswith(FORMULAS) or cell[:1] in FORMULAS:
        float(cell)  # a number alone


def test_the_table_of_a_result_has_no_formulas(tmp_path: Path) -> None:
    write_table(
        [{"title": "=1+1", "label": "+a", "estimate": -0.5, "cells": ["=a"]}], tmp_path / "x.csv"
    )
    assert (tmp_path / "x.csv").read_bytes() == (
        b'title,label,estimate,cells\r\n\'=1+1,\'+a,-0.5,"[""=a""]"\r\n'
    )
