"""The table of exit codes, from `molattn.errors`."""

import molattn.errors


def write(_: str) -> str:
    """The text of the module, after its first line, as Markdown."""
    return (molattn.errors.__doc__ or "").partition("\n\n")[2]
