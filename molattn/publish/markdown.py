"""Markdown and YAML of a model card."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def escaped(text: object) -> str:
    """The text in one line, with the special characters of Markdown escaped: names may contain any character."""
    line = " ".join(str(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in line)


def code(text: object) -> str:
    """The text as inline code, which can be in the cell of a table; empty for an empty text."""
    line = " ".join(str(text).split()).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; the cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def number(value: float | None) -> str:
    """The text of a number, with four significant digits; "undefined" for None."""
    return "undefined" if value is None else f"{value + 0.0:.4g}"


def yaml_lines(content: Mapping[str, Any] | Sequence[Any], indent: int = 0) -> list[str]:
    """The lines of YAML of mappings, lists, strings and finite numbers; strings are in quotes."""
    pad, lines = " " * indent, []
    items = [(f"{k}:", v) for k, v in content.items()] if isinstance(content, Mapping) else [("-", v) for v in content]
    for start, value in items:
        if not isinstance(value, Mapping | list | tuple) or not value:
            lines.append(f"{pad}{start} {_scalar(value)}")
        elif start == "-":
            first, *others = yaml_lines(value, indent + 2)
            lines += [f"{pad}- {first.lstrip()}", *others]
        else:
            lines += [f"{pad}{start}", *yaml_lines(value, indent + 2)]
    return lines


def _scalar(value: object) -> str:
    """The YAML of a string, a number, or an empty list or mapping."""
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        # Not json.dumps: JSON escapes a character above U+FFFF as two surrogates, which YAML does not combine.
        return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + '"'
    text = json.dumps(value)
    mantissa, e, exponent = text.partition("e")
    # YAML 1.1 reads 1e-05, without a point, as a string.
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text
