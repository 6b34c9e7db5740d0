"""Column names: validation, numbering of duplicates, and lookup."""

import difflib
import re
from collections.abc import Iterable, Sequence

from molattn.errors import InputError, UsageError, short_repr

_MAX_LISTED, _MAX_SEARCHED_NAMES, _MAX_LENGTH = 40, 1000, 200
"""Maximum number of names in an error, of names searched for the closest match, and of characters in such a name."""

_UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)?", re.ASCII)

_STRUCTURE_NAMES = frozenset({"structure", "structures", "molecule", "molecules", "mol", "mols"})
_MAYBE_SMILES = re.compile("smile|struct|mol", re.IGNORECASE)


def validate_column_names(where: str, names: Iterable[str]) -> tuple[str, ...]:
    """Check the names, and return them as written.

    Raises InputError, which begins with `where`, for a name that contains NUL or is a duplicate; surrounding spaces are
    ignored in the comparison.
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
    """Replace empty names by `Unnamed: 0` and so on, with the index of the column, as pandas does.

    >>> name_columns(["", "smiles", "Unnamed: 0"])
    ('Unnamed: 0.1', 'smiles', 'Unnamed: 0')
    """
    names = tuple(names)
    if all(map(str.strip, names)):
        return names
    used = {name.strip() for name in names}
    result: list[str] = []
    for index, name in enumerate(names):
        if not name.strip():
            name, suffix = f"Unnamed: {index}", 0
            while name in used:
                suffix += 1
                name = f"Unnamed: {index}.{suffix}"
            used.add(name)
        result.append(name)
    return tuple(result)


def is_unnamed(name: str) -> bool:
    """Whether a name has the form that `name_columns` and pandas give to columns without a name."""
    return _UNNAMED.fullmatch(name.strip()) is not None


def number_duplicates(names: Iterable[str]) -> list[str]:
    """Append .1, .2 and so on to duplicate names."""
    counts: dict[str, int] = {}
    result = []
    for name in names:
        counts[name] = counts.get(name, -1) + 1
        result.append(f"{name}.{counts[name]}" if counts[name] else name)
    return result


def find_column(columns: Sequence[str], name: str, source: str) -> int:
    """The index of the column `name`; spaces around a name in the header, as in `smiles, y`, are ignored.

    Raises UsageError, with the available columns and the closest match, if there is no such column.
    """
    stripped = [known.strip() for known in columns]
    if name.strip() in stripped:
        return stripped.index(name.strip())
    folded = [known.casefold() for known in stripped]
    # With very many or very long names the search would take minutes.
    candidates = [known for known in folded[:_MAX_SEARCHED_NAMES] if len(known) <= _MAX_LENGTH]
    close = difflib.get_close_matches(name.strip().casefold()[:_MAX_LENGTH], candidates, n=1)
    hint = f"; did you mean {short_repr(stripped[folded.index(close[0])])}?" if close else ""
    raise UsageError(f"{source} has no column {short_repr(name)}; it has {format_names(stripped)}{hint}")


def guess_smiles_column(columns: Sequence[str], known: str | None = None) -> str:
    """The SMILES column: `known`, which the format defines, or else the best match by name.

    Case is ignored; `smiles` comes first, then a name that contains `smiles` (`canonical_smiles`), then `structure`,
    `molecule`, `mol`.

    Args:
        columns: the names of the columns.
        known: the SMILES column of a format that defines it, such as SMI; None for other formats.

    Raises:
        UsageError: no name matches, or several match equally well.

    >>> from molattn.data import guess_smiles_column
    >>> guess_smiles_column(["id", "Canonical_SMILES", "molecule", "y"])
    'Canonical_SMILES'
    """
    if known is not None:
        return known
    parts = [part.strip().casefold() for part in columns[0].split("|")] if len(columns) == 1 else []
    if len(parts) > 1 and "smiles" in parts:
        raise UsageError(
            f"the only column is {short_repr(columns[0])}: separate columns by commas, semicolons or tabs, not by |"
        )
    best = _find_smiles_columns(columns)
    if len(best) == 1:
        return best[0]
    found = (
        f"any of {format_names(best)} could hold the SMILES"
        if best
        else f"no column of {format_names(columns)} is named smiles"
    )
    raise UsageError(f"{found}: select it with --smiles-column, or add --no-header-row if there is no header")


def has_smiles_column(names: Iterable[str]) -> bool:
    """Whether any of the names could be that of a SMILES column, as for `guess_smiles_column`."""
    return bool(_find_smiles_columns(names))


def _find_smiles_columns(names: Iterable[str]) -> list[str]:
    """The names that match a SMILES column best; several if they match equally well."""
    names = [*names]
    if not _MAYBE_SMILES.search("\n".join(names)):
        return []  # also fast for a million names
    folded = {name: name.strip().casefold() for name in names}
    matches = (
        [name for name, text in folded.items() if text == "smiles"],
        [name for name, text in folded.items() if "smiles" in text],
        [name for name, text in folded.items() if text in _STRUCTURE_NAMES],
    )
    return next(filter(None, matches), [])


def format_names(names: Iterable[str]) -> str:
    """The names as a text for an error; only the first `_MAX_LISTED` of them."""
    names = [*names]
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(map(short_repr, names[:_MAX_LISTED])) + more
