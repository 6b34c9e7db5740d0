"""Class names in target columns: which spellings are one class, and which of two classes is the positive one."""

import math
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from molattn.data.tables.cells import NUMBER
from molattn.errors import InputError, UsageError, short_repr

MAX_CLASSES = 100
"""The largest number of classes of a multiclass target."""
MAX_INFERRED_CLASSES = 20
"""The largest number of different words from which a multiclass target is inferred."""
MAX_SPELLINGS = 1_000
"""The largest number of different texts in a column from which classes are inferred."""

KNOWN_PAIRS = (
    *(("inactive", "active"), ("negative", "positive"), ("neg", "pos"), ("no", "yes"), ("n", "y"), ("false", "true")),
    *(("f", "t"), ("-", "+"), ("nontoxic", "toxic"), ("fail", "pass"), ("failed", "passed"), ("absent", "present")),
    *(("low", "high"), ("off", "on"), ("decoy", "active"), ("nonbinder", "binder")),
)
"""Known pairs of a negative and a positive class, in lower case. In addition, WORD is the positive class next to WORD
with a prefix of `_NEGATIONS`, such as `soluble` next to `insoluble`."""
_NEGATIONS = ("non", "not", "in", "im", "un")
ZERO_ONE = ("0", "1")

LabelCounts = Mapping[str, Counter[str]]
"""The labels of a column: by the label in lower case, how often each of its spellings occurs."""


def fold_label(text: str) -> str:
    """A label for comparison: in lower case, with single spaces."""
    return " ".join(text.split()).casefold()


def clean_label(text: str) -> str:
    """A label without surrounding white space, and a whole number without a decimal point."""
    text = text.strip()
    if NUMBER.fullmatch(text) and math.isfinite(float(text)) and float(text) == int(float(text)):
        return str(int(float(text)))
    return text


def count_labels(texts: Sequence[str]) -> LabelCounts:
    """The labels among texts that are not empty."""
    found: dict[str, Counter[str]] = {}
    for text, times in Counter(texts).items():
        found.setdefault(fold_label(text), Counter())[text] = times
    return found


def hold_class_words(labels: LabelCounts) -> bool:
    """Whether a column holds a few words that repeat, and no number."""
    return (
        2 <= len(labels) <= MAX_INFERRED_CLASSES
        and sum(map(Counter.total, labels.values())) >= 2 * len(labels)
        and not any(map(looks_like_number, labels))
    )


def looks_like_number(text: str) -> bool:
    """Whether a text is, or was meant as, a number: 1.5, 0,5, >10, -inf."""
    return text.lstrip("<>=~+-.\u2264\u2265 ")[:1].isdigit() or text.casefold().lstrip("+-") in ("inf", "infinity")


def find_classes(
    columns: Sequence[str], labels: Sequence[LabelCounts], kind: str, positive_class: str = ""
) -> tuple[tuple[str, ...], ...]:
    """The classes of each column, for two classes the negative one first; empty if the columns hold numbers.

    Args:
        columns, labels: the names of the target columns, and their labels.
        kind: "regression", "binary" or "multiclass"; empty to infer classes from words.
        positive_class: the positive one of two classes, for the columns that hold it; if empty, see `binary_classes`.

    Raises:
        InputError: a column does not hold the classes of its kind.
        UsageError: `positive_class` is not one of two classes.
    """
    chosen = [positive_class if fold_label(positive_class) in column_labels else "" for column_labels in labels]
    if positive_class and not any(chosen):
        raise UsageError(
            f"no target is of the class {positive_class!r}, which --positive-class names: "
            f"{columns[0]} holds {_names_of(labels[0])}"
        )
    found: list[tuple[str, ...] | None] = []
    if kind in ("", "binary"):
        found.extend(map(binary_classes, labels, chosen))
    if kind == "binary":
        found = [two or known_binary_classes(column_labels) for two, column_labels in zip(found, labels, strict=True)]
        for name, column_labels, two in zip(columns, labels, found, strict=True):
            if two is None and not any(map(looks_like_number, column_labels)):
                raise InputError(
                    f"column {short_repr(name)} holds {len(column_labels)} different labels, "
                    f"{_names_of(column_labels)}, and a binary target has two: empty the cells of the others, or "
                    "choose --task-type multiclass"
                )
    if found and None not in found and set(found) != {ZERO_ONE}:
        return tuple(filter(None, found))
    if positive_class:
        name, column_labels = next((n, x) for n, x, is_in in zip(columns, labels, chosen, strict=True) if is_in)
        raise UsageError(
            f"--positive-class is one of two classes, and column {short_repr(name)} holds {_names_of(column_labels)}"
            if set(found) != {ZERO_ONE}
            else f"--positive-class {shlex.quote(positive_class)} is the default for labels of 0 and 1: leave it out"
        )
    if kind == "multiclass" or (kind == "" and all(map(hold_class_words, labels))):
        return tuple(map(sorted_classes, columns, labels))
    return ()


def sorted_classes(column: str, labels: LabelCounts) -> tuple[str, ...]:
    """The names of the classes of a multiclass column: as numbers if all are whole numbers, otherwise alphabetically.

    Raises:
        InputError: fewer than two classes, too many, or fractions.
    """
    if not 2 <= len(labels) <= MAX_CLASSES:
        raise InputError(
            f"column {column!r} holds {len(labels)} different labels, and a target of several classes has 2 to "
            f"{MAX_CLASSES}: choose another --task-type or column"
        )
    numbers = [text for text in labels if NUMBER.fullmatch(text)]
    if fraction := next((text for text in sorted(numbers) if "." in text or "e" in text), None):
        raise InputError(f"column {column!r} holds {fraction}, which is not a class: choose --task-type regression")
    names = map(_most_frequent, labels.values())
    return tuple(
        sorted(names, key=int) if len(numbers) == len(labels) else sorted(names, key=lambda n: (fold_label(n), n))
    )


def binary_classes(labels: LabelCounts, positive: str = "") -> tuple[str, str] | None:
    """The negative and the positive class of a column with two classes; None for any other column.

    A column may also hold a single label, if the other one of its pair is known. Numbers other than 0 and 1 are classes
    only if `positive` is one of them.

    Args:
        labels: of the column.
        positive: the positive class, if it is chosen and the column holds it.
    """
    chosen = fold_label(positive)
    if len(labels) == 2 and chosen in labels:
        (negative,) = set(labels) - {chosen}
        return _most_frequent(labels[negative]), _most_frequent(labels[chosen])
    if set(labels) <= set(ZERO_ONE):
        return ZERO_ONE
    if len(labels) == 2 and not any(map(looks_like_number, labels)):
        negative, found = sorted(labels), positive_of(*labels)
        if found:
            negative.remove(found)
            return _most_frequent(labels[negative[0]]), _most_frequent(labels[found])
        return (
            (_most_frequent(labels[negative[0]]), _most_frequent(labels[negative[1]]))
            if hold_class_words(labels)
            else None
        )
    if len(labels) == 1:
        (only,) = labels
        for pair in KNOWN_PAIRS:
            if only in pair:
                return tuple(_most_frequent(labels[only]) if name == only else name for name in pair)  # pyright: ignore
    return None


def known_binary_classes(labels: LabelCounts) -> tuple[str, str] | None:
    """The only pair among the labels whose positive class is known; None if there is no such pair, or several."""
    if len(labels) > MAX_CLASSES:
        return None
    pairs = {(a, b) for a in labels for b in labels if a != b and positive_of(a, b) == b}
    pairs |= {ZERO_ONE} & {(a, b) for a in labels for b in labels}
    if len(pairs) != 1:
        return None
    negative, positive = pairs.pop()
    return _most_frequent(labels[negative]), _most_frequent(labels[positive])


def positive_of(a: str, b: str) -> str:
    """The positive one of two classes, in lower case; empty if that is not known."""
    for negative, positive in ((a, b), (b, a)):
        if (negative, positive) in KNOWN_PAIRS:
            return positive
        if any(negative.removeprefix(prefix).lstrip("- ") == positive != negative for prefix in _NEGATIONS):
            return positive
    return ""


def class_codes(classes: Sequence[str]) -> dict[str, int]:
    """The index of each class by its name, and by its name in lower case if no other class has the same."""
    counts = Counter(map(fold_label, classes))
    codes = {fold_label(name): i for i, name in enumerate(classes) if counts[fold_label(name)] == 1}
    return codes | {name: i for i, name in enumerate(classes)}


def describe_spellings(column: str, labels: LabelCounts, classes: Collection[str]) -> str:
    """Which spellings of a class of the column were read as one; empty if each class has one spelling."""
    merged = [
        spellings for folded, spellings in labels.items() if len(spellings) > 1 and folded in map(fold_label, classes)
    ]
    if not merged:
        return ""
    texts = []
    for spellings in merged[:3]:
        first, *others = spellings.most_common()
        written = " and ".join(f"{short_repr(text)} ({times:,})" for text, times in others[:3])
        texts.append(f"{written} as {short_repr(first[0])} ({first[1]:,})")
    more = f", and {len(merged) - 3} more" if len(merged) > 3 else ""
    return f"column {short_repr(column)}: letter case is ignored, {', '.join(texts)}{more}"


def _names_of(labels: LabelCounts) -> str:
    """The names of the labels, the most frequent first."""
    return abbreviate(list(map(_most_frequent, sorted(labels.values(), key=Counter.total, reverse=True))))


def _most_frequent(spellings: Counter[str]) -> str:
    return spellings.most_common(1)[0][0]


def describe_binary_classes(names: Sequence[str], classes: Sequence[tuple[str, ...]]) -> str:
    """Which two classes the targets have, which one is positive and why, and how to choose the other."""
    what = names[0] if len(names) == 1 else f"{len(names)} targets"
    if len(set(classes)) > 1:
        positive = [f"{c[1]} ({name})" for name, c in zip(names, classes, strict=True)]
        each = f"{what} hold two words each; the positive classes are {abbreviate(positive)}"
        return f"{each}; --positive-class overrides that of the targets that have the word"
    negative, positive = classes[0]
    is_usual = positive_of(fold_label(negative), fold_label(positive)) or fold_label(negative) > fold_label(positive)
    why, other = "", "--positive-class"
    if not is_usual:
        why, other = ", the last in the alphabet", f"--positive-class {shlex.quote(negative)}"
    first, second = sorted((negative, positive), key=fold_label)
    words = f"the words {first} and {second}" if (negative, positive) != ZERO_ONE else "0 and 1"
    return f"{what} {hold_or_holds(names)} {words}; the positive class is {positive}{why}; {other} overrides it"


def hold_or_holds(names: Sequence[str]) -> str:
    return "holds" if len(names) == 1 else "hold"


def abbreviate(names: Sequence[str]) -> str:
    shorter = ", ".join(names[:6])
    return shorter if len(names) <= 6 else f"{shorter}, ... ({len(names)})"
