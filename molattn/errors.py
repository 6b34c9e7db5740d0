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
import sys
import warnings
from collections.abc import Iterable, Sequence


class MolattnError(Exception):
    """An error that molattn explains in one sentence: what is wrong, where, and what to do next."""

    exit_code = 1


class UsageError(MolattnError):
    """The command, an option or a setting does not make sense."""

    exit_code = 2


class InputError(MolattnError):
    """The input data cannot be used."""

    exit_code = 3


class SmilesError(InputError):
    """One SMILES that cannot become a molecule; `reason` says why, without repeating the SMILES."""

    def __init__(self, smiles: object, reason: str):
        self.smiles = smiles
        self.reason = reason
        super().__init__(f"{short_repr(smiles)}: {reason}")

    def __reduce__(self) -> tuple[type["SmilesError"], tuple[object, str]]:
        # By default, pickle would pass the arguments of Exception, which are not those of this constructor.
        return type(self), (self.smiles, self.reason)


class ConformerError(SmilesError):
    """A molecule for which no 3D geometry is found; `reason` says why, without repeating the SMILES."""

    row: int | None = None
    """The row of the molecule, counted from 0, if several were being read."""


class RowsFailed(MolattnError):
    """Rows failed, and the caller required that none fail."""

    exit_code = 4


class MissingExtra(MolattnError):
    """An optional package is not installed."""

    exit_code = 5

    def __init__(self, package: str, extra: str, what_for: str):
        super().__init__(f"{what_for} needs {package}: pip install 'molattn[{extra}]'")


EXTRAS = ("excel", "keras", "notebook", "ray", "trees", "tune", "widget")
"""The optional parts of molattn, as in `pip install molattn[tune]`, without those for tests, documentation and
development."""


def installed_extras() -> dict[str, bool]:
    """For each extra of molattn, whether all of its packages are installed."""
    import re
    from importlib.metadata import distributions, requires

    here = {re.sub(r"[-_.]+", "-", d.name).lower() for d in distributions()}
    conditions = [requirement.replace('"', "'").partition(";")[::2] for requirement in requires("molattn") or []]
    names = {
        extra: [
            re.split(r"[\[<>=]", package)[0].strip() for package, when in conditions if f"extra == '{extra}'" in when
        ]
        for extra in EXTRAS
    }
    return {
        extra: all(re.sub(r"[-_.]+", "-", n).lower() in here for n in packages) for extra, packages in names.items()
    }


class ProcessLost(MolattnError):
    """Another process that the work depends on has ended; what was saved is intact and can be resumed from."""

    exit_code = 6


class MolattnWarning(UserWarning):
    """Something that a user should know, but that does not stop the work."""


def warn_caller(message: str) -> None:
    """Issue a `MolattnWarning` at the line outside of molattn that the call stack leads to.

    For code that is reached in several ways, such as a generator, whose caller is whatever iterates over it.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "molattn":
        level, frame = level + 1, frame.f_back
    warnings.warn(MolattnWarning(message), stacklevel=level)


def describe_bad_smiles(bad: Sequence[tuple[int, object, str]], total: int, limit: int = 5) -> str:
    """A message about the SMILES that cannot be used, `bad` of `total`: row, text and reason of the first `limit`."""
    named = "; ".join(f"row {row}, {short_repr(text)}: {reason}" for row, text, reason in bad[:limit])
    more = f"; and {len(bad) - limit} more" if len(bad) > limit else ""
    return f"{len(bad)} of {total} SMILES cannot be used, rows counted from 0: {named}{more}"


_MAX_CHOICES = 20
_MAX_LENGTH = 60
"""Characters of a value that a message shows, and that are compared with the choices."""


def molecule_level_only(what: str, instead: str = "leave it out") -> str:
    """The message for `what`, such as an option, that was given with atom-level targets."""
    return f"{what} applies only to molecule-level targets, and these are atom-level: {instead}"


def unknown_choice(kind: str, value: object, choices: Iterable[str], alternative: str = "") -> str:
    """The message about a value that is none of the choices.

    It names the closest one, and lists all if they are at most 20, or the first 20 if none is close.

    Args:
        kind: what is chosen.
        value: the choice that is unknown.
        choices: the names that are known.
        alternative: what can be passed instead of a name, such as "a function".

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


def short_repr(text: object, limit: int = _MAX_LENGTH) -> str:
    """The ASCII `repr` of `text`, truncated to `limit` characters."""
    form = ascii(text)
    return form if len(form) <= limit else form[: limit - 3] + "..."
