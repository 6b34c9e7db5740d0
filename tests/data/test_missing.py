"""The markers of a missing value: those that pandas reads as NaN, and a few more."""

from io import StringIO

import pandas as pd
import pytest

from molattn.data.tables.cells import count_na_values, describe_na_values, is_na_value

# The default `na_values` in the documentation of pandas.read_csv, without the empty text.
OF_PANDAS = (
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)


@pytest.mark.parametrize("word", OF_PANDAS)
def test_what_pandas_reads_as_missing_is_missing(word: str) -> None:
    (found,) = pd.read_csv(StringIO(f"y,z\n{word},1\n"))["y"].isna()
    assert found and is_na_value(word)


@pytest.mark.parametrize("word", ["n.a.", "n/d", "N.D.", "nd", "?", "-", "\u2013", "na", "NONE"])
def test_what_laboratories_write_is_missing(word: str) -> None:
    assert is_na_value(word)


@pytest.mark.parametrize("word", ["0", "no", "n", "inf", "active", "+", "nan1", "a-"])
def test_other_words_are_not_missing(word: str) -> None:
    assert not is_na_value(word)
    assert not pd.read_csv(StringIO(f"y,z\n{word},1\n"))["y"].isna().any()


def test_a_dash_in_a_column_with_a_plus_is_a_class() -> None:
    assert count_na_values(["-", "1", " - "]) == {"-": 2}
    assert count_na_values(["-", "+", "NA"]) == {"NA": 1}


def test_the_message_counts_the_markers() -> None:
    cells = [*["NA"] * 1200, "?", "null", "nan", "n/a", "nd", "None", "<NA>"]
    assert describe_na_values(count_na_values(cells), ["y"]) == (
        "1,207 cells of column 'y' are read as missing: 'NA' (1,200), '?' (1), 'null' (1), 'nan' (1), 'n/a' (1), "
        "'nd' (1) and 2 other markers"
    )
    assert describe_na_values(count_na_values(["NA"]), ["a", "b"]) == (
        "1 cell of the target columns is read as missing: 'NA' (1)"
    )
