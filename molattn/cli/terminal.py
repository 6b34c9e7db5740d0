"""Printing of untrusted text on a terminal.

Names, units, paths and SMILES are untrusted, and a terminal interprets what is in them: an escape sequence clears the
screen or sets the title, a bidirectional control character reverses a line, a line break starts a new line. Every line,
table cell and message goes through `printable`. Bytes written to a file are not changed.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def printable(text: object, allowed: str = "") -> str:
    r"""The text with every character that is not printable escaped as in Python, such as `\x1b`.

    >>> print(printable("y\x1b[2J\u202e\n"))
    y\x1b[2J\u202e\n

    allowed: characters that are not escaped.
    """
    text = str(text)
    if text.isprintable():
        return text
    shown = (
        c if c.isprintable() or c in allowed else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
    return "".join(shown)


def print_line(text: object = "") -> None:
    """Print a line of a result on standard output."""
    print(printable(text))


def print_json(content: Any) -> None:
    """Print a result as ASCII JSON on standard output."""
    sys.stdout.write(json.dumps(content, indent=1) + "\n")


def print_status(text: object) -> None:
    """Print a line about the progress of the work on standard error."""
    print(printable(text), file=sys.stderr)


def warn(text: object) -> None:
    """Print a warning on standard error."""
    print_status(f"warning: {text}")


def console(stderr: bool = False) -> "Console":
    """A Rich console for tables and bars that prints text literally: no markup, no terminal escapes."""
    from rich.console import Console
    from rich.segment import Segment

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text), **options)

        def render(self, renderable: Any, options: Any = None) -> Any:
            # Segments are text with a style; those between them end lines.
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text, "\n"), segment.style)

        def on_broken_pipe(self) -> None:
            raise

    return PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


def bar_column() -> Any:
    """The bar of a progress display, in colors of the terminal's palette other than red."""
    from rich.progress import BarColumn

    return BarColumn(complete_style="cyan", finished_style="green", pulse_style="cyan")


STDIO = "-"
"""The path that means standard input for a table, and standard output for the output."""


def stdout_writer() -> Callable[[str], object]:
    """A function that writes the text of a table to standard output, byte for byte unless it is a terminal."""
    if sys.stdout.isatty():
        return lambda text: sys.stdout.write(printable(text, "\n\t"))
    sys.stdout.flush()
    return lambda text: sys.stdout.buffer.write(text.encode())


def quote_argument(text: object) -> str:
    """An argument as a user can paste it into a shell: that of POSIX, or a console of Windows."""
    if sys.platform == "win32":
        import subprocess  # here, because `--help` does without it

        return subprocess.list2cmdline([str(text)])
    return shlex.quote(str(text))


def prepare_streams() -> None:
    """Make sure that standard input, output and error are open and accept any text.

    The parent process may have closed them. The next file that is opened would then get the file descriptor of standard
    output, and printed text would be written to it. So the null device takes the descriptor, opened so that printing to
    standard output fails.
    """
    streams = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_RDWR))
    for number, (name, mode, flags) in enumerate(streams):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # replaced by an object of another type
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]


def discard_output() -> None:
    """Discard the rest of standard output and error where they cannot be written to, as after a closed pipe.

    Otherwise Python reports at exit that it cannot flush them.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
