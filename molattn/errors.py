"""Errors whose message is one sentence with the next step; the command line maps each class to an exit code.

| exit code | class          | meaning                                    |
|-----------|----------------|--------------------------------------------|
| 0         |                | done, or the reader of the output closed   |
| 1         | anything else  | an internal error: a bug of molattn        |
| 2         | `UsageError`   | an invalid command, option or setting      |
| 3         | `InputError`   | the input data cannot be used              |
| 4         | `RowsFailed`   | rows failed and `--strict` was given       |
| 5         | `MissingExtra` | an optional package is not installed       |
| 6         | `ProcessLost`  | a process that others depend on has ended  |
| 130       |                | stopped from the keyboard                  |

If the reader of the output closes it early, as `head` does, the command ends quietly with 0. A standard output that is
already closed at the start, a full disk or a folder without write permission give 3.
"""

import difflib
import errno
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import TypeVar

_T = TypeVar("_T")

DISK_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is exceeded",
    errno.EFBIG: "a file exceeds the size limit",
}
"""Why a file cannot grow, by the number of the `OSError`."""


class MolattnError(Exception):
    """An error that molattn explains in one sentence: what is wrong, where, and what to do next.

    Catching it catches every error of this module. `exit_code` is the exit code of a command that ends with it.

    >>> from molattn.chem import read_smiles
    >>> from molattn.errors import MolattnError
    >>> try:
    ...     read_smiles("")
    ... except MolattnError as error:
    ...     print(error, error.exit_code)
    '': it is empty 3
    """

    exit_code = 1


class UsageError(MolattnError):
    """The command, an option or a setting is invalid.

    >>> from molattn.chem import descriptors
    >>> from molattn.errors import UsageError
    >>> try:
    ...     descriptors("CCO", ("TPSSA",))
    ... except UsageError as error:
    ...     print(error)
    unknown descriptor 'TPSSA': did you mean 'TPSA'?
    """

    exit_code = 2


class InputError(MolattnError):
    """The input data cannot be used.

    >>> from molattn.chem import canonical_smiles, read_smiles
    >>> from molattn.errors import InputError
    >>> try:
    ...     canonical_smiles(read_smiles("CCO"), max_atoms=2)
    ... except InputError as error:
    ...     print(error)
    the molecule has 3 atoms, over the limit of 2
    """

    exit_code = 3


class SmilesError(InputError):
    """One SMILES that cannot become a molecule; `reason` says why, without repeating the SMILES.

    Args:
        smiles: the SMILES, or the value in its place.
        reason: why, as part of a sentence.

    >>> from molattn.chem import featurize
    >>> (error,) = featurize(["CN(C)(C)C"])
    >>> error
    SmilesError("'CN(C)(C)C': atom 1 (N) has a valence of 4, more than it can have")
    >>> error.smiles, error.reason
    ('CN(C)(C)C', 'atom 1 (N) has a valence of 4, more than it can have')
    """

    def __init__(self, smiles: object, reason: str):
        self.smiles = smiles
        self.reason = reason
        super().__init__(f"{short_ascii(smiles)}: {reason}")

    def __reduce__(self) -> tuple[type["SmilesError"], tuple[object, str]]:
        # By default, pickle would pass the arguments of Exception, which are not those of this constructor.
        return type(self), (self.smiles, self.reason)


class ConformerError(SmilesError):
    """A molecule for which no 3D geometry is found; `reason` says why, without repeating the SMILES.

    Args:
        smiles: the SMILES.
        reason: why, as part of a sentence.

    >>> from molattn.chem import conformer
    >>> from molattn.errors import ConformerError
    >>> try:
    ...     conformer("C" * 200)
    ... except ConformerError as error:
    ...     print(error.reason)
    a fragment of 602 atoms, hydrogens included, is over the limit of 400 for 3D
    """

    row: int | None = None
    """The row of the molecule, counted from 0, if several were being read."""


class RowsFailed(MolattnError):
    """Rows failed, and the caller required that none fail."""

    exit_code = 4


class MissingExtra(MolattnError):
    """An optional package is not installed.

    Args:
        package: the package.
        extra: one of `EXTRAS`.
        what_for: what needs the package, the subject of the message.

    >>> from molattn.errors import MissingExtra
    >>> print(MissingExtra("optuna", "tune", "the search"))
    the search needs optuna: pip install 'molattn[tune]'
    """

    exit_code = 5

    def __init__(self, package: str, extra: str, what_for: str):
        super().__init__(f"{what_for} needs {package}: pip install 'molattn[{extra}]'")


EXTRAS = (
    *("excel", "hub", "keras", "mlflow", "notebook", "onnx", "ray", "tensorboard", "trees", "tune", "wandb", "widget"),
)
"""The optional parts of molattn, as in `pip install molattn[tune]`, without those for tests, documentation and
development."""


def installed_extras() -> dict[str, bool]:
    """For each of `EXTRAS`, whether all of its packages are installed.

    Raises:
        importlib.metadata.PackageNotFoundError: molattn itself is not installed, as when it is imported from a folder.

    >>> from molattn.errors import EXTRAS, installed_extras
    >>> tuple(installed_extras()) == EXTRAS
    True
    """
    import re
    from importlib.metadata import distributions, requires

    def normalize(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    installed = {normalize(d.name) for d in distributions()}
    requirements = [requirement.replace('"', "'").partition(";")[::2] for requirement in requires("molattn") or []]
    packages = {
        extra: [
            re.split(r"[\[<>=]", package)[0].strip()
            for package, marker in requirements
            if f"extra == '{extra}'" in marker
        ]
        for extra in EXTRAS
    }
    return {extra: all(normalize(name) in installed for name in names) for extra, names in packages.items()}


class ProcessLost(MolattnError):
    """Another process that the work depends on has ended; what was saved is intact and can be resumed from."""

    exit_code = 6


class MolattnWarning(UserWarning):
    """Something that a user should know, but that does not stop the work.

    >>> import warnings
    >>> from molattn.errors import MolattnWarning, warn_caller
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", MolattnWarning)  # silences those of molattn only
    ...     warn_caller("2 rows have no target")
    """


def warn_caller(message: str) -> None:
    """Issue a `MolattnWarning` at the line outside of molattn that the call stack leads to.

    For code that is reached in several ways, such as a generator, whose caller is whatever iterates over it.

    Args:
        message: the text of the warning.

    >>> import warnings
    >>> from molattn.errors import warn_caller
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_caller("2 rows have no target")
    >>> caught[0].category.__name__, str(caught[0].message)
    ('MolattnWarning', '2 rows have no target')
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "molattn":
        level, frame = level + 1, frame.f_back
    warnings.warn(MolattnWarning(message), stacklevel=level)


def describe_failures(failed: int, total: int, effect: str, first: object) -> str:
    """How many of `total` failed, with the first of them: "2 of 9 rows are left out; the first, line 3: ..."; or "".

    Args:
        failed, total: the numbers.
        effect: what they are, and what follows for those that failed: "rows are left out".
        first: location and reason of the first that failed.

    >>> from molattn.errors import describe_failures
    >>> describe_failures(2, 9, "rows are left out", "line 3: it is empty")
    '2 of 9 rows are left out; the first, line 3: it is empty'
    """
    return f"{failed} of {total} {effect}; the first, {first}" if failed else ""


def describe_bad_smiles(bad: Sequence[tuple[int, object, str]], total: int, limit: int = 5) -> str:
    """A message about the SMILES that cannot be used: how many, and the row, text and reason of the first of them.

    Args:
        bad: row (from 0), text and reason of each SMILES that cannot be used.
        total: number of all SMILES.
        limit: largest number of SMILES that are named.

    >>> from molattn.errors import describe_bad_smiles
    >>> describe_bad_smiles([(3, "", "it is empty"), (7, None, "the value is missing")], total=10, limit=1)
    "2 of 10 SMILES cannot be used, rows counted from 0: row 3, '': it is empty; and 1 more"
    """
    named = "; ".join(f"row {row}, {short_ascii(text)}: {reason}" for row, text, reason in bad[:limit])
    more = f"; and {len(bad) - limit} more" if len(bad) > limit else ""
    return f"{len(bad)} of {total} SMILES cannot be used, rows counted from 0: {named}{more}"


def molecule_level_only(what: str, instead: str = "leave it out") -> str:
    """The error message for a setting that does not apply to atom-level targets.

    Args:
        what: the setting, such as an option.
        instead: what to do.

    >>> from molattn.errors import molecule_level_only
    >>> molecule_level_only("--with-trees")
    '--with-trees applies only to molecule-level targets, and these are atom-level: leave it out'
    """
    return f"{what} applies only to molecule-level targets, and these are atom-level: {instead}"


_MAX_CHOICES = 20
"""The maximum number of choices that a message lists."""
_MAX_LENGTH = 60
"""The maximum number of characters of a value that a message shows, and that are compared with the choices."""


def unknown_choice(kind: str, value: object, choices: Iterable[str], alternative: str = "") -> str:
    """The error message for a value that is none of the choices.

    It names the closest one, and lists all if they are at most 20, or the first 20 if none is close.

    Args:
        kind: what the value is, such as "loss".
        value: the unknown value.
        choices: the valid names.
        alternative: what can be passed instead of a name, such as "a function".

    >>> from molattn.errors import unknown_choice
    >>> unknown_choice("loss", "hubre", ["mse", "huber"])
    "unknown loss 'hubre': choose one of mse, huber; did you mean 'huber'?"
    """
    names = list(map(str, choices))
    close = difflib.get_close_matches(str(value)[:_MAX_LENGTH], names, n=1)
    hints = []
    if len(names) <= _MAX_CHOICES or not close:
        more = f" and {len(names) - _MAX_CHOICES} more" if len(names) > _MAX_CHOICES else ""
        hints.append(f"choose one of {', '.join(names[:_MAX_CHOICES])}{more}")
    if alternative:
        hints.append(f"{hints.pop()}, or pass {alternative}" if hints else f"pass {alternative}")
    if close:
        hints.append(f"did you mean {close[0]!r}?")
    return f"unknown {kind} {short_repr(value)}: {'; '.join(hints)}"


def as_list(values: Iterable[_T], what: str = "SMILES", example: str = "CCO") -> list[_T]:
    """The values as a list.

    Args:
        values: of a function that takes several.
        what: they are, in the plural.
        example: of one of them.

    Raises:
        TypeError: a single string, which would be read letter by letter.

    >>> from molattn.errors import as_list
    >>> as_list(("CCO", "CCN"))
    ['CCO', 'CCN']
    """
    if isinstance(values, str):
        raise TypeError(f"pass a list of {what}, such as [{example!r}], not one string")
    return list(values)


def check_type(value: object, expected: type, function: str) -> None:
    """Raise TypeError if the argument of a function is not of the expected type.

    Args:
        value: the argument.
        expected: the type that it has to be an instance of.
        function: name of the function, for the message.

    Raises:
        TypeError: it is not; for a list or tuple the message advises to pass one element.

    >>> from molattn.errors import check_type
    >>> check_type(["CCO"], str, "read")
    Traceback (most recent call last):
    TypeError: read takes a str, not list: pass one of its elements
    """
    if not isinstance(value, expected):
        article = "an" if expected.__name__[0] in "AEIOU" else "a"
        hint = ": pass one of its elements" if isinstance(value, list | tuple) else ""
        raise TypeError(f"{function} takes {article} {expected.__name__}, not {type(value).__name__}{hint}")


def short_repr(text: object, limit: int = _MAX_LENGTH) -> str:
    """The `repr` of `text`, truncated to `limit` characters: what is printable as it is, everything else escaped.

    Args:
        text: any value.
        limit: characters of the result, at least 3.

    >>> from molattn.errors import short_repr
    >>> short_repr("C" * 1000, limit=12)
    "'CCCCCCCC..."
    """
    return _truncate(repr(text), limit)


def short_ascii(text: object, limit: int = _MAX_LENGTH) -> str:
    r"""`short_repr` with everything that is not ASCII escaped: for SMILES and numbers, where an escape is the error.

    Args:
        text: any value.
        limit: characters of the result, at least 3.

    >>> from molattn.errors import short_ascii
    >>> print(short_ascii("\u0421O"))  # a Cyrillic letter, which looks like a carbon
    '\u0421O'
    """
    return _truncate(ascii(text), limit)


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
