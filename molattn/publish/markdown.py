"""Text of a model card: tables and lists of Markdown, and the metadata in YAML above them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def escaped(text: object) -> str:
    """A name as text of one line that means nothing to Markdown: names may hold any characters."""
    line = " ".join(str(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in line)


def code(text: object) -> str:
    """A name as code of one line, also within a table."""
    line = " ".join(str(text).split()).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def number(value: float | None) -> str:
    """A number with four significant digits; "undefined" for None."""
    return "undefined" if value is None else f"{value + 0.0:.4g}"


def yaml_lines(content: Mapping[str, Any] | Sequence[Any], indent: int = 0) -> list[str]:
    """Mappings, lists, texts and finite numbers as YAML, with every text in quotes."""
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
    """A text, a number or an empty list or mapping."""
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        # The escapes of Python, not those of JSON, which has two of them for a character beyond the first 65,536.
        return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + '"'
    text = json.dumps(value)
    mantissa, e, exponent = text.partition("e")
    # Without a point, it is a text in YAML.
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text
