"""Functions on text."""

import textwrap


def dedent(text: str) -> str:
    """A docstring without the indentation of its later lines."""
    first, _, rest = text.partition("\n")
    return f"{first.strip()}\n{textwrap.dedent(rest)}".strip()
