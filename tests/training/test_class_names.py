"""Which words are one class, and which of two classes is the positive one."""

import pytest

from molattn.errors import InputError, UsageError
from molattn.training.class_names import (
    KNOWN_PAIRS,
    binary_classes,
    class_codes,
    count_labels,
    describe_binary_classes,
    describe_spellings,
    find_classes,
    known_binary_classes,
    positive_of,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("active", "inactive"), ("true", "false"), ("yes", "no"), ("+", "-"), ("positive", "negative"), ("y", "n")),
        *(("t", "f"), ("toxic", "nontoxic"), ("toxic", "non-toxic"), ("toxic", "not toxic"), ("soluble", "insoluble")),
        *(("permeable", "impermeable"), ("stable", "unstable"), ("binder", "non-binder"), ("high", "low")),
    ],
)
def test_the_positive_class_is_known(one: str, other: str) -> None:
    assert positive_of(one, other) == positive_of(other, one) == one
    assert binary_classes(count_labels([other.upper(), one.title()])) == (other.upper(), one.title())


@pytest.mark.parametrize(("one", "other"), [("red", "blue"), ("in", "out"), ("active", "toxic"), ("a", "b")])
def test_the_positive_class_of_other_words_is_the_last_in_the_alphabet(one: str, other: str) -> None:
    assert positive_of(one, other) == positive_of(other, one) == ""
    assert binary_classes(count_labels([one, other] * 2)) == tuple(sorted((one, other)))
    assert binary_classes(count_labels([one, other])) is None, "they do not repeat: names, not classes"


def test_every_pair_has_one_positive_class() -> None:
    assert all(positive_of(a, b) == b != a for a, b in KNOWN_PAIRS)
    assert len(set(KNOWN_PAIRS)) == len(KNOWN_PAIRS)


def test_the_positive_class_can_be_chosen() -> None:
    labels = count_labels(["Active", "active", "inactive"])
    assert binary_classes(labels, "INACTIVE") == ("Active", "inactive")
    assert binary_classes(count_labels(["1", "2"]), "1") == ("2", "1")
    assert binary_classes(count_labels(["1", "2"])) is None
    assert binary_classes(count_labels(["0", "1"]), "0") == ("1", "0")
    assert find_classes(["y", "z"], [labels, count_labels(["0", "1"])], "", "inactive") == (
        ("Active", "inactive"),
        ("0", "1"),
    )
    with pytest.raises(UsageError, match="no target is of the class 'x', which --positive-class names: y holds Active"):
        find_classes(["y"], [labels], "", "x")
    with pytest.raises(UsageError, match="is one of two classes, and column 'y' holds red, blue, grey"):
        find_classes(["y"], [count_labels(["red", "blue", "grey"] * 9)], "", "red")
    with pytest.raises(UsageError, match="is one of two classes, and column 'y' holds 3, 1.5, 2"):
        find_classes(["y"], [count_labels(["1.5", "2", "3", "3"])], "", "2")
    with pytest.raises(UsageError, match="is the default for labels of 0 and 1: leave it out"):
        find_classes(["y"], [count_labels(["0", "1"])], "", "1")


def test_one_of_two_known_classes_is_enough() -> None:
    assert binary_classes(count_labels(["Yes"] * 3)) == ("no", "Yes")
    assert binary_classes(count_labels(["blue"] * 3)) is None


def test_other_labels_in_a_column_with_two_known_classes() -> None:
    labels = count_labels(["active", "inactive", "inconclusive"] * 4)
    assert binary_classes(labels) is None
    assert known_binary_classes(labels) == ("inactive", "active")
    assert known_binary_classes(count_labels(["0", "1", "x"])) == ("0", "1")
    assert known_binary_classes(count_labels(["0", "1", "yes", "no"])) is None
    assert known_binary_classes(count_labels(list(map(str, range(200))))) is None
    assert find_classes(["y"], [labels], "") == (("active", "inactive", "inconclusive"),)
    assert find_classes(["y"], [labels], "binary") == (("inactive", "active"),)
    with pytest.raises(InputError, match="column 'y' holds 3 different labels, a, b, c, and a binary target has two"):
        find_classes(["y"], [count_labels(["a", "b", "c"])], "binary")


def test_letter_case_is_ignored_and_the_most_frequent_spelling_names_the_class() -> None:
    labels = count_labels(["low", "Low", "Low", "mid", "HIGH", "High"])
    assert find_classes(["y"], [labels], "multiclass") == (("HIGH", "Low", "mid"),)
    assert describe_spellings("y", labels, ("HIGH", "Low", "mid")) == (
        "column 'y': letter case is ignored, 'low' (1) as 'Low' (2), 'High' (1) as 'HIGH' (1)"
    )
    assert describe_spellings("y", count_labels(["low", "mid"]), ("low", "mid")) == ""
    assert class_codes(("HIGH", "Low")) == {"high": 0, "HIGH": 0, "low": 1, "Low": 1}
    assert class_codes(("a", "A", "b")) == {"a": 0, "A": 1, "b": 2}, "a model whose classes differ by case only"


def test_the_sentence_about_two_classes() -> None:
    assert describe_binary_classes(["y"], (("inactive", "active"),)) == (
        "y holds the words active and inactive; the positive class is active; --positive-class overrides it"
    )
    assert describe_binary_classes(["y"], (("blue", "red"),)) == (
        "y holds the words blue and red; the positive class is red, the last in the alphabet; --positive-class blue "
        "overrides it"
    )
    assert "red; the positive class is blue; --pos" in describe_binary_classes(["y"], (("red", "blue"),))
    assert describe_binary_classes(["y", "z"], (("no", "yes"),) * 2).startswith(
        "2 targets hold the words no and yes; the"
    )
    assert describe_binary_classes(["y", "z"], (("no", "yes"), ("0", "1"))) == (
        "2 targets hold two words each; the positive classes are yes (y), 1 (z); --positive-class overrides that of "
        "the targets that have the word"
    )


def test_a_class_in_the_advice_is_quoted_for_the_shell() -> None:
    described = describe_binary_classes(["y"], [("Class 1", "Class 2")])
    assert described.endswith("; --positive-class 'Class 1' overrides it")
