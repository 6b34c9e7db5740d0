"""Column names: validated, numbered if duplicate, and looked up; and cells parsed as numbers."""

import difflib
import math
import re
from collections.abc import Iterable, Sequence

from molattn.data.tables.missing import is_missing_word
from molattn.errors import InputError, UsageError, short_repr

_MAX_SHOWN, _MAX_SEARCHED, _MAX_LENGTH = 40, 1000, 200
"""Maximum number of names in an error, of names searched for the closest match, and of characters in such a name."""

_UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)?", re.ASCII)

STRUCTURE_NAMES = frozenset({"structure", "structures", "molecule", "molecules", "mol", "mols"})
_MAYBE_SMILES = re.compile("smile|struct|mol", re.IGNORECASE)


def validate_column_names(where: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names, as written.

    Raises InputError, which begins with `where`, for a name that contains NUL or is a duplicate; surrounding spaces are
    ignored.
    """
    names = tuple(names)
    first_number: dict[str, int] = {}
    for number, original in enumerate(names, start=1):
        name = original.strip()
        if "\0" in name:
            raise InputError(
                f"{where}: NUL in column {number} of the header; save the file as UTF-8 text, or give its encoding, as "
                "in --encoding utf-16-le"
            )
        if name in first_number:
            raise InputError(
                f"{where}: columns {first_number[name]} and {number} are both named {short_repr(name)}; rename one in "
                "the header"
            )
        first_number[name] = number
    return names


def name_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The names; empty ones are replaced by `Unnamed: 0` and so on, with the index of the column, as in pandas.

    >>> name_columns(["", "smiles", "Unnamed: 0"])
    ('Unnamed: 0.1', 'smiles', 'Unnamed: 0')
    """
    names = tuple(names)
    if all(map(str.strip, names)):
        return names
    taken = {name.strip() for name in names}
    named: list[str] = []
    for index, name in enumerate(names):
        if not name.strip():
            name, times = f"Unnamed: {index}", 0
            while name in taken:
                times += 1
                name = f"Unnamed: {index}.{times}"
            taken.add(name)
        named.append(name)
    return tuple(named)


def is_unnamed(name: str) -> bool:
    """Whether a name has the form that `name_columns` and pandas give to columns without a name."""
    return _UNNAMED.fullmatch(name.strip()) is not None


def number_duplicates(names: Iterable[str]) -> list[str]:
    """The names, with .1, .2 and so on appended to duplicates."""
    times: dict[str, int] = {}
    numbered = []
    for name in names:
        times[name] = times.get(name, -1) + 1
        numbered.append(f"{name}.{times[name]}" if times[name] else name)
    return numbered


def find_column(columns: Sequence[str], name: str, source: str) -> int:
    """The index of the column `name`; spaces around a name in the header, as in `smiles, y`, are ignored.

    Raises UsageError, with the available columns and the closest match, if there is no such column.
    """
    stripped = [known.strip() for known in columns]
    if name.strip() in stripped:
        return stripped.index(name.strip())
    folded = [known.casefold() for known in stripped]
    # With very many or very long names the search would take minutes.
    near = [known for known in folded[:_MAX_SEARCHED] if len(known) <= _MAX_LENGTH]
    close = difflib.get_close_matches(name.strip().casefold()[:_MAX_LENGTH], near, n=1)
    hint = f"; did you mean {short_repr(stripped[folded.index(close[0])])}?" if close else ""
    raise UsageError(f"{source} has no column {short_repr(name)}; it has {format_names(stripped)}{hint}")


def guess_smiles_column(columns: Sequence[str], known: str | None = None) -> str:
    """The SMILES column: `known`, which the format defines, or else the best match by name.

    Case is ignored; `smiles` comes first, then a name that contains `smiles` (`canonical_smiles`), then `structure`,
    `molecule`, `mol`.

    Raises UsageError if no name matches, or several match equally well.
    """
    if known is not None:
        return known
    best = _smiles_names(columns)
    if len(best) == 1:
        return best[0]
    found = (
        f"any of {format_names(best)} could hold the SMILES"
        if best
        else f"no column of {format_names(columns)} is named smiles"
    )
    raise UsageError(f"{found}: say which with --smiles-column, or that there is no header with --no-header-row")


def names_a_smiles_column(names: Iterable[str]) -> bool:
    """Whether any of the names could be that of a SMILES column, as for `guess_smiles_column`."""
    return bool(_smiles_names(names))


def _smiles_names(names: Iterable[str]) -> list[str]:
    """The best matches for a SMILES column, all equally good."""
    names = [*names]
    if not _MAYBE_SMILES.search("\n".join(names)):
        return []  # fast also for a million names
    folded = {name: name.strip().casefold() for name in names}
    tiers = (
        [name for name, text in folded.items() if text == "smiles"],
        [name for name, text in folded.items() if "smiles" in text],
        [name for name, text in folded.items() if text in STRUCTURE_NAMES],
    )
    return next((tier for tier in tiers if tier), [])


def format_names(names: Iterable[str]) -> str:
    """The names as an error lists them; only the first if there are many."""
    names = [*names]
    more = f" and {len(names) - _MAX_SHOWN:,} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(map(short_repr, names[:_MAX_SHOWN])) + more


# Stricter than float(), which also takes 1_000, full-width digits, nan and infinity.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_APPROXIMATE = "~\u2248\u223c"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)


def parse_numbers(cells: Sequence[object], names: Sequence[str]) -> tuple[list[float], str | None]:
    """The numbers in some cells of one row, NaN for an empty one, or the reason why they cannot be used.

    cells: text, or typed values, of which None and NaN are missing. names: those of their columns.
    """
    numbers = []
    for cell, name in zip(cells, names, strict=True):
        stripped = cell.strip() if isinstance(cell, str) else cell
        number = math.nan if stripped is None or stripped == "" else parse_finite(stripped)
        if number is None:
            hint = _hint(stripped) if isinstance(stripped, str) else ""
            return [], f"column {short_repr(name)}: {short_repr(cell)} is not a finite number{hint}"
        numbers.append(number)
    return numbers, None


def parse_required_numbers(cells: Sequence[object], names: Sequence[str]) -> tuple[list[float], str | None]:
    """As `parse_numbers`, but a missing value is a reason as well."""
    numbers, reason = parse_numbers(cells, names)
    missing = [name for number, name in zip(numbers, names, strict=False) if math.isnan(number)]
    if missing:
        return [], missing_value_reason(missing)
    return numbers, reason


def replace_decimal_commas(cells: Sequence[object]) -> list[object] | None:
    """The cells of a column with decimal points, if all fractions in it have decimal commas; else None.

    It is None if a decimal point occurs as well, because a comma may then be a thousands separator.

    >>> replace_decimal_commas(["-11,01", "", "3"])
    ['-11.01', '', '3']
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    if not any(map(DECIMAL_COMMA.fullmatch, texts)) or any("." in t and NUMBER.fullmatch(t) for t in texts):
        return None
    return [
        cell.replace(",", ".") if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell.strip()) else cell
        for cell in cells
    ]


def missing_value_reason(names: Sequence[str]) -> str:
    """The reason for rejecting a row without values in these columns."""
    return f"no value in column{'s' if len(names) > 1 else ''} {format_names(names)}"


def parse_finite(value: object) -> float | None:
    """The number, NaN for a missing one, None for a value that is not a finite number."""
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        return None
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isinf(number) else number


def _hint(text: str) -> str:
    if DECIMAL_COMMA.fullmatch(text):
        return f": write a decimal point, {text.replace(',', '.')}"
    if is_missing_word(text):
        return ": leave the field empty for a missing value"
    if text[:1] in _APPROXIMATE and NUMBER.fullmatch(exact := text.lstrip(_APPROXIMATE + " ")):
        return f", but an approximate one: write {exact} if it may be learned as it is"
    if NUMBER.fullmatch(text.replace("\u2212", "-")) and "\u2212" in text:
        return ": write the minus sign as -"
    return ""
