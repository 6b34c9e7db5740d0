"""The names of a table's columns: each there and each once; one found by its name."""

import difflib
from collections.abc import Iterable, Sequence

from molattn.errors import InputError, UsageError, short_repr

_SHOWN, _SEARCHED, _LONGEST = 40, 1000, 200
"""Names that an error shows, names among which it looks for the closest, and characters of those."""

STRUCTURE_NAMES = frozenset({"structure", "structures", "molecule", "molecules", "mol", "mols"})


def validate_column_names(where: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names, as written.

    Raises InputError, which begins with `where`, for a name that is missing, holds a NUL or stands twice; spaces
    around it do not count.
    """
    names = tuple(names)
    first_place: dict[str, int] = {}
    for place, written in enumerate(names, start=1):
        name = written.strip()
        if not name:
            raise InputError(f"{where}: column {place} of {len(names)} has no name; give it one")
        if "\0" in name:
            raise InputError(f"{where}: NUL in column {place} of the header; save the file as UTF-8 text")
        if name in first_place:
            raise InputError(
                f"{where}: columns {first_place[name]} and {place} are both named {short_repr(name)}; rename one"
            )
        first_place[name] = place
    return names


def number_duplicates(names: Iterable[str]) -> list[str]:
    """The names, with .1, .2 and so on after one that stood before."""
    times: dict[str, int] = {}
    found = []
    for name in names:
        times[name] = times.get(name, -1) + 1
        found.append(f"{name}.{times[name]}" if times[name] else name)
    return found


def find_column(columns: Sequence[str], name: str, source: str) -> int:
    """Where the column `name` stands; spaces around a name in the header, as in `smiles, y`, do not count.

    Raises UsageError, with the columns there are and the closest, when there is no such column.
    """
    plain = [known.strip() for known in columns]
    if name.strip() in plain:
        return plain.index(name.strip())
    folded = [known.casefold() for known in plain]
    # Among very many or very long names the search would take minutes.
    near = [known for known in folded[:_SEARCHED] if len(known) <= _LONGEST]
    close = difflib.get_close_matches(name.strip().casefold()[:_LONGEST], near, n=1)
    hint = f"; did you mean {short_repr(plain[folded.index(close[0])])}?" if close else ""
    raise UsageError(f"{source} has no column {short_repr(name)}; it has {format_names(plain)}{hint}")


def guess_smiles_column(columns: Sequence[str], known: str | None = None) -> str:
    """The one column that holds the molecules: the one that the format says, if any, or else by its name.

    Upper or lower case does not matter; `smiles` comes first, then a name with `smiles` in it (`canonical_smiles`),
    then `structure`, `molecule`, `mol`.

    Raises UsageError when no name fits, or several fit equally well.
    """
    if known is not None:
        return known
    plain = {name: name.strip().casefold() for name in columns}
    tiers = (
        [name for name, text in plain.items() if text == "smiles"],
        [name for name, text in plain.items() if "smiles" in text],
        [name for name, text in plain.items() if text in STRUCTURE_NAMES],
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
    """The names as an error shows them, the first of many."""
    names = [*names]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(short_repr, names[:_SHOWN])) + more
