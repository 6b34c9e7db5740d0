"""Units in the names of columns, as in `IC50 [nM]`."""

import re
from collections.abc import Sequence

_UNIT = re.compile(r"(.*\S)\s*(?:\[([^\[\]]+)\]|\(([^()]*(?:\([^()]*\)[^()]*)*)\))\s*", re.DOTALL)
MAX_UNIT_LENGTH = 24
"""Maximum characters of a unit."""
NOT_UNITS = frozenset(
    (
        *("mean", "median", "average", "avg", "std", "sd", "sem", "min", "max", "n", "count", "log", "raw", "final"),
        *("exp", "exp.", "experimental", "measured", "observed", "obs", "calc", "calc.", "calculated", "pred"),
        *("predicted", "active", "inactive", "binary", "class", "label", "target", "test", "train"),
        *("y/n", "yes/no", "0/1", "true/false"),
    )
)
"""Words, in lower case, that are not units, but occur in parentheses at the end of column names too."""


def split_unit(name: str) -> tuple[str, str]:
    """Split the name of a column into the name without its unit, and the unit, which is empty if there is none.

    A unit is a text in brackets or parentheses at the end that contains a letter, a degree sign or a percent sign.

    >>> split_unit("IC50 [nM]")
    ('IC50', 'nM')
    >>> split_unit("y (2)")
    ('y (2)', '')
    """
    if (match := _UNIT.fullmatch(name)) is None:
        return name, ""
    unit = (match[2] or match[3]).strip()
    has_letter = any(c.isalpha() or c in "\u00b0%\u2030" for c in unit)
    if not has_letter or len(unit) > MAX_UNIT_LENGTH or unit.casefold() in NOT_UNITS:
        return name, ""
    return match[1], unit


def find_without_unit(columns: Sequence[str], name: str) -> str:
    """The column or target that is `name` with a unit; `name` itself if it is one of them, or if none or several match.

    >>> find_without_unit(["smiles", "IC50 [nM]"], "IC50")
    'IC50 [nM]'
    """
    wanted = name.strip()
    if any(known.strip() == wanted for known in columns):
        return name
    found = [known for known in columns if split_unit(known.strip())[0] == wanted]
    return found[0] if len(found) == 1 else name


def name_has_unit(name: str, unit: str) -> bool:
    """Whether the name of a column ends with this unit, in brackets or parentheses."""
    return bool(unit) and split_unit(name)[1] == unit
