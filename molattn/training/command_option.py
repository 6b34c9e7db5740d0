"""The declaration of a setting with its command-line option. Importing this module does not import torch."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Option:
    """The command-line option of a setting.

    Attributes:
        help: its help text.
        names: short names, in addition to the long one; or all names, if a long one is among them.
        metavar: the placeholder of the value in the help; by the type of the setting if None.
        hidden: whether only `--help-all` shows it.
        registry: the key of `molattn.plugins.REGISTRIES` whose names are its values; empty for none.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    hidden: bool = True
    registry: str = ""


def option(
    default: Any,
    text: str,
    *names: str,
    metavar: str | None = None,
    hidden: bool = True,
    registry: str = "",
    show_default: bool | None = None,
) -> Any:
    """A dataclass field with a default that is also a command-line option, see `Option`.

    With `show_default`, its help ends with the default; if `show_default` is None, unless that is empty, 0 or False.
    """
    if (default not in ("", (), False)) if show_default is None else show_default:
        text = f"{text} [default: {' '.join(map(str, default)) if isinstance(default, tuple) else default}]"
    return field(default=default, metadata={"option": Option(text, names, metavar, hidden, registry)})
