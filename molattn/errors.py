"""What can go wrong, as one sentence and the next step; the command line turns each class into an exit code.

| exit code | class          | meaning                                    |
|-----------|----------------|--------------------------------------------|
| 0         |                | done, or whoever read the output has gone  |
| 1         | anything else  | an internal error: a fault of molattn      |
| 2         | `UsageError`   | the command, an option or a setting is off |
| 3         | `InputError`   | the data given cannot be used              |
| 4         | `RowsFailed`   | rows failed and `--strict` was given       |
| 5         | `MissingExtra` | an optional package is not installed       |
| 6         | `ProcessLost`  | a process that others wait for has ended   |
| 130       |                | stopped from the keyboard                  |

Whoever reads the output and goes before its end, as `head` does, has what they wanted: the command ends quietly with 0.
A closed standard output, a full disk, a folder without the right to write: 3.
"""

from collections.abc import Sequence


class MolattnError(Exception):
    """An error that molattn explains: one sentence that says what and where, and what to do next."""

    exit_code = 1


class UsageError(MolattnError):
    """The command, an option or a setting does not make sense."""

    exit_code = 2


class InputError(MolattnError):
    """The data given cannot be used."""

    exit_code = 3


class SmilesError(InputError):
    """One SMILES that cannot become a molecule; `reason` says why, without repeating the SMILES."""

    def __init__(self, smiles: object, reason: str):
        self.smiles = smiles
        self.reason = reason
        super().__init__(f"{short_repr(smiles)}: {reason}")

    def __reduce__(self) -> tuple[type["SmilesError"], tuple[object, str]]:
        # Two arguments in, one message out: pickle must be told which made it.
        return type(self), (self.smiles, self.reason)


class ConformerError(SmilesError):
    """A molecule for which no 3D geometry is found; `reason` says why, without repeating the SMILES."""

    row: int | None = None
    """Which of many it was, from 0, where it stopped their reading."""


class RowsFailed(MolattnError):
    """Rows failed and the caller asked for none to."""

    exit_code = 4


class MissingExtra(MolattnError):
    """An optional package is not installed."""

    exit_code = 5

    def __init__(self, package: str, extra: str, what_for: str):
        super().__init__(f"{what_for} needs {package}: pip install 'molattn[{extra}]'")


class ProcessLost(MolattnError):
    """Another process, without which the work cannot go on, has ended; what was saved is whole, and can be resumed."""

    exit_code = 6


class MolattnWarning(UserWarning):
    """Something a user should know that does not stop the work."""


def describe_bad_smiles(bad: Sequence[tuple[int, object, str]], total: int, limit: int = 5) -> str:
    """Which SMILES of `total` cannot be used and why, up to `limit` of them by row, text and reason."""
    named = "; ".join(f"row {row}, {short_repr(text)}: {reason}" for row, text, reason in bad[:limit])
    more = f"; and {len(bad) - limit} more" if len(bad) > limit else ""
    return f"{len(bad)} of {total} SMILES cannot be used, rows counted from 0: {named}{more}"


def short_repr(text: object, limit: int = 60) -> str:
    """`text` as it may be printed: its Python form, ASCII only, cut after `limit` characters."""
    form = ascii(text)
    return form if len(form) <= limit else form[: limit - 3] + "..."
