"""Column names: validated, numbered if duplicate, and looked up."""

import difflib
from collections.abc import Iterable, Sequence

from molattn.errors import InputError, UsageError, short_repr

_MAX_SHOWN, _MAX_SEARCHED, _MAX_LENGTH = 40, 1000, 200
"""Maximum names that an error lists, names searched for the closest match, and characters in each of those."""

STRUCTURE_NAMES = frozenset({"structure", "structures", "molecule", "molecules", "mol", "mols"})


def validate_column_names(where: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names, as written.

    Raises InputError, which begins with `where`, for a name that is empty, contains NUL or is a duplicate; surrounding
    spaces are ignored.
    """
    names = tuple(names)
    first_number: dict[str, int] = {}
    for number, original in enumerate(names, start=1):
        name = original.strip()
        if not name:
            raise InputError(f"{where}: column {number} of {len(names)} has no name; give it one")
        if "\0" in name:
            raise InputError(f"{where}: NUL in column {number} of the header; save the file as UTF-8 text")
        if name in first_number:
            raise InputError(
                f"{where}: columns {first_number[name]} and {number} are both named {short_repr(name)}; rename one"
            )
        first_number[name] = number
    return names


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
    """The column of molecules: `known`, which the format defines, or else the best match by name.

    Case is ignored; `smiles` comes first, then a name that contains `smiles` (`canonical_smiles`), then `structure`,
    `molecule`, `mol`.

    Raises UsageError if no name matches, or several match equally well.
    """
    if known is not None:
        return known
    folded = {name: name.strip().casefold() for name in columns}
    tiers = (
        [name for name, text in folded.items() if text == "smiles"],
        [name for name, text in folded.items() if "smiles" in text],
        [name for name, text in folded.items() if text in STRUCTURE_NAMES],
    )
    best = next((tier for tier in tiers if tier), [])
    if len(best) == 1:
        return best[0]
    found = (
        f"any of {format_names(best)} could hold the SMILES"
        if best
        else f"no column of {format_names(columns)} is named smiles"
    )
    raise UsageError(f"{found}: say which with --smiles-column")


def format_names(names: Iterable[str]) -> str:
    """The names as an error lists them; only the first if there are many."""
    names = [*names]
    more = f" and {len(names) - _MAX_SHOWN:,} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(map(short_repr, names[:_MAX_SHOWN])) + more
