"""How a setting is declared together with its option of commands. Importing this module loads nothing heavy."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Option:
    """How a setting is offered as an option of commands.

    Attributes:
        help: its help text.
        names: more names, short ones; or all names, with the long ones.
        metavar: what stands for the value in the help; by the type of the setting if None.
        hidden: whether only `--help-all` shows it.
        table: which of `molattn.plugins.REGISTRIES` holds its values; empty for none.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    hidden: bool = True
    table: str = ""


def option(
    default: Any,
    text: str,
    *names: str,
    metavar: str | None = None,
    hidden: bool = True,
    table: str = "",
    show_default: bool | None = None,
) -> Any:
    """A field with a default that is also an option, see `Option`.

    Its help ends with the default if that is not zero or empty, or as `show_default` says.
    """
    if (default not in ("", (), False)) if show_default is None else show_default:
        text = f"{text} [default: {' '.join(map(str, default)) if isinstance(default, tuple) else default}]"
    return field(default=default, metadata={"option": Option(text, names, metavar, hidden, table)})
