"""molattn's docstrings, as reStructuredText.

They are Google-style text with code in backticks, equations in paragraphs of their own and indented examples, without
the markup of reStructuredText. So its special characters are escaped, `name` becomes a reference if there is such a
name and code otherwise, and equations and examples are kept as they are. Napoleon then reads the sections.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Container, Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python._object import PyObject

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \w+)*): (.*)$")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*(?:\(\))?")
_SPECIAL = re.compile(r"`([^`]+)`|([\\*|]|_(?!\w))")
_ALIGNED = re.compile(r"^\S+ += |\S {3,}\S")
_WORDS = {"None", "True", "False"}
_ONE_LINE = ("attribute", "data", "property")


def setup(app: Sphinx) -> None:
    """Register the event, before that of napoleon, and call the attributes of a class what they are."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-skip-member", _skip)
    app.connect("builder-inited", _label_attributes)
    app.connect("doctree-read", _write_dashes)


def _label_attributes(_: Sphinx) -> None:
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"


def _write_dashes(_: Sphinx, doctree: nodes.document) -> None:
    """Write a dash between a parameter and its text; elsewhere "--" begins an option."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \u2013 "))


def _skip(_: Sphinx, __: str, name: str, ___: Any, ____: bool, _____: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator; None leaves the decision to autodoc."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _process(_: Sphinx, what: str, __: str, obj: Any, ___: Any, lines: list[str]) -> None:
    converted = to_rst(list(lines), _parameters(obj), _has_fields(obj))
    # Napoleon takes the text before a colon in the first line of an attribute for its type.
    lines[:] = ["", *converted] if what in _ONE_LINE else converted


def _has_fields(obj: Any) -> bool:
    """Whether the attributes of a class are the arguments of its constructor."""
    return inspect.isclass(obj) and (dataclasses.is_dataclass(obj) or hasattr(obj, "_fields"))


def _parameters(obj: Any) -> set[str]:
    try:
        return set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return set()


def to_rst(lines: list[str], parameters: Container[str] = (), fields_are_arguments: bool = False) -> list[str]:
    """The lines of a docstring as reStructuredText for napoleon.

    Args:
        lines: of the docstring, without common indentation.
        parameters: names that are no references: those of the function's own parameters.
        fields_are_arguments: whether its "Attributes" are shown as "Args".
    """
    result: list[str] = []
    section = ""
    for paragraph in _paragraphs(lines):
        if not paragraph[0].startswith(" "):
            found = _SECTION.match(paragraph[0])
            section = found[1] if found else ""
        elif section and paragraph[0].startswith("    ") and not _ENTRY.match(paragraph[0]):
            # A remark after the entries of a section is no part of the last one.
            paragraph, section = [line.removeprefix("    ") for line in paragraph], ""
        if section == "Attributes" and fields_are_arguments:
            paragraph[0] = paragraph[0].replace("Attributes:", "Args:")
        if paragraph[0].lstrip().startswith(">>>"):
            result += paragraph
        elif not section and (paragraph[0].startswith("    ") or _is_equation(paragraph)):
            language = "python" if _is_python(paragraph) else "text"
            result += [f".. code-block:: {language}", "", *(f"    {line}" for line in paragraph)]
        else:
            text = "\n".join(_one_name_each(paragraph) if section in ("Args", "Attributes") else paragraph)
            result += _escape(text, parameters).split("\n")
        result.append("")
    return result


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []


def _is_equation(paragraph: list[str]) -> bool:
    text = "\n".join(paragraph)
    return "`" not in text and not text.endswith(".") and all(_ALIGNED.search(line) for line in paragraph)


def _is_python(paragraph: list[str]) -> bool:
    """Whether an indented example is Python; equations, which are not indented, may look like it."""
    try:
        ast.parse(textwrap.dedent("\n".join(paragraph)))
    except SyntaxError:
        return False
    return paragraph[0].startswith(" ")


def _one_name_each(paragraph: list[str]) -> list[str]:
    """The lines of a section in which "a, b: text" is an entry for each name: napoleon takes one name."""
    result: list[str] = []
    entries: list[list[str]] = []
    for line in paragraph:
        if entries and line.startswith("        "):
            entries[-1].append(line)
        else:
            entries.append([line])
    for first, *more in entries:
        found = _ENTRY.match(first)
        if found is None or ", " not in found[1]:
            result += [first, *more]
            continue
        for name in found[1].split(", "):
            result += [f"    {name}: {found[2]}", *more]
    return result


def _escape(text: str, parameters: Container[str]) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[1] is None:
            return f"\\{found[2]}"
        code = " ".join(found[1].split())
        name = code.removesuffix("()")
        if _NAME.fullmatch(code) and name not in parameters and name not in _WORDS:
            markup = f":py:obj:`{code}`" if code == name else f":py:obj:`{code} <{name}>`"
        else:
            markup = f"``{code}``"
        # Markup of reStructuredText stands between spaces, or escaped ones, which are not shown.
        before = re.search(r"\S$", text[: found.start()])
        after = re.match(r"\S", text[found.end() :])
        return ("\\ " if before else "") + markup + ("\\ " if after else "")

    return _SPECIAL.sub(replace, text)
