"""What the command line says, as text that does nothing to a terminal: the one place that prints.

Names, units, paths and SMILES are a stranger's, and a terminal obeys what is in them: an escape sequence clears the
screen or writes into the title, a change of direction turns a line around, a line end makes a line of its own. Every
line, cell of a table and message goes through `printable`. What is written to a file keeps its bytes.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def printable(text: object, kept: str = "") -> str:
    r"""The text with every character that is no letter, sign or blank as Python writes it, such as `\x1b`.

    >>> print(printable("y\x1b[2J\u202e\n"))
    y\x1b[2J\u202e\n

    kept: characters that stay as they are.
    """
    text = str(text)
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c in kept else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return "".join(shown)


def say(text: object = "") -> None:
    """A line of a result, on standard output."""
    print(printable(text))


def say_json(content: Any) -> None:
    """A result as JSON, on standard output; it is ASCII."""
    sys.stdout.write(json.dumps(content, indent=1) + "\n")


def tell(text: object) -> None:
    """A line about the work, on standard error."""
    print(printable(text), file=sys.stderr)


def warn(text: object) -> None:
    """Something that a user should know, on standard error."""
    tell(f"warning: {text}")


def console(stderr: bool = False) -> "Console":
    """Rich's console, for tables and bars, to which a text is a text: no markup, nothing that a terminal obeys."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text), **options)

        def render(self, renderable: Any, options: Any = None) -> Any:
            # Texts that come as such, with styles of ours: what is drawn between them ends lines.
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text, "\n"), segment.style)

        def on_broken_pipe(self) -> None:
            raise

    return Plain(stderr=stderr, markup=False, emoji=False, highlight=False)


def table_to_stdout() -> Callable[[str], object]:
    """Takes the text of a table to standard output: the bytes of a file where it goes to one, or through a pipe."""
    if sys.stdout.isatty():
        return lambda text: sys.stdout.write(printable(text, "\n\t"))
    sys.stdout.flush()
    return lambda text: sys.stdout.buffer.write(text.encode())


def prepare() -> None:
    """Make standard input, output and error such that each is there, and takes any text.

    Whoever starts a process can have closed them. The next file that is opened would then be standard output to
    everyone who writes to it: something else is put there that refuses.
    """
    ways = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_RDWR))
    for number, (name, mode, flags) in enumerate(ways):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # of somebody else's making
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]


def hush() -> None:
    """Nothing more goes to standard output and error: whoever read them has gone, or they take nothing.

    Python would say at its end that it cannot write what is left.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
