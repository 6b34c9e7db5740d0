"""Smaller SVG documents: the same drawing in half the bytes.

matplotlib writes coordinates with six decimals and a style for each element, and RDKit repeats the outline of a letter
wherever it is drawn. Here coordinates are rounded to a hundredth of a point, and styles and outlines are shared.
"""

import hashlib
import re
from itertools import groupby

from molattn.viewer.glyphs import Glyphs

_DECIMALS = 2  # of coordinates in points: the error is invisible at any zoom
_MIN_RUN = 3  # successive elements of one style, from which a group around them is shorter
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PLACEHOLDER = "\x00"  # for a comment; XML has no such character
_PATH_DATA = re.compile(r'(?<= d=")[^"]*')
_COORDINATES = re.compile(r'(?<= [xy]=")-?\d+\.\d+(?=")|(?<=translate\()[^)]*')
_STYLE = re.compile(r'(?<= style=")[^"]*')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_TOKEN = re.compile(rf"[A-Za-z]|{_NUMBER.pattern}")
_ELEMENT = re.compile(r"<(?:use|path) [^>]*/>")
_PATCH = re.compile(r'<g id="patch_\d+">\n(<path [^>]*/>)\n</g>')  # nothing refers to these groups
_TRANSLATION = re.compile(r' transform="translate\((\S+) 0\)"(?=/>)')
_CLIP = re.compile(r' clip-path="([^"]*)"')


def compact(svg: str) -> str:
    """Shorten an SVG of matplotlib: with rounded numbers, and one group around successive elements of the same style.

    >>> compact('<path d="M 0.123456 1 \\nL 7 1 \\nL 7 5.0004 \\nz\\n" style="fill: #ffffff"/>')
    '<path d="M.12 1H7V5z" style="fill:#ffffff"/>'
    """
    comments = _COMMENT.findall(svg)  # the texts of the figure, in which nothing may be replaced
    text = _PATH_DATA.sub(lambda found: _short_path(found[0]), _COMMENT.sub(_PLACEHOLDER, svg))
    text = _COORDINATES.sub(lambda found: _NUMBER.sub(lambda number: _short(float(number[0])), found[0]), text)
    text = _STYLE.sub(lambda found: re.sub(r"([:;]) +", r"\1", found[0]), text)
    text = "\n".join(line.lstrip(" ") for line in text.split("\n"))
    text = _TRANSLATION.sub(r' x="\1"', _PATCH.sub(r"\1", text))
    lines = _group_by_style(_join_groups(text.split("\n")))
    restored = iter(comments)
    return re.sub(_PLACEHOLDER, lambda _: next(restored), "\n".join(lines))


def share_letters(svg: str, letter: re.Pattern[str]) -> str:
    """Define each outline of a letter once in an SVG, and refer to it wherever the letter is drawn.

    Args:
        svg: the document, of RDKit.
        letter: a pattern of the element of a letter; its groups are the path and the rest of the attributes.
    """
    glyphs = Glyphs()
    svg = re.sub(r"<path d='' [^>]*/>\n", "", svg)  # spaces
    uses = [(*glyphs.add(found[1]), found[2].strip()) for found in letter.finditer(svg)]
    # Ids are hashes of the outlines, since several pictures on one page share their ids: equal ids mean equal outlines.
    ids = ["g" + hashlib.sha256(path.encode()).hexdigest()[:8] for path in glyphs.paths]
    elements = iter(
        f"<use xlink:href='#{ids[k]}' x='{_short(x)}' y='{_short(y)}'{f' {rest}' if rest else ''}/>"
        for k, x, y, rest in uses
    )
    outlines = "".join(f"<path id='{i}' d='{path}'/>\n" for i, path in zip(ids, glyphs.paths, strict=True))
    return _insert_definitions(letter.sub(lambda _: next(elements), svg), f"<defs>\n{outlines}</defs>\n" if ids else "")


def _insert_definitions(svg: str, definitions: str) -> str:
    """Insert definitions after the tag of the svg element."""
    end = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:end]}\n{definitions}{svg[end:].lstrip()}"


def _short(number: float) -> str:
    """Format a number with at most two decimals and as few characters as possible.

    >>> [_short(x) for x in (12.3456, -0.5, 0.001, 3.0)]
    ['12.35', '-.5', '0', '3']
    """
    text = f"{round(number, _DECIMALS) + 0.0:.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return re.sub(r"^(-?)0(?=\.)", r"\1", text)


def _short_path(data: str) -> str:
    """Shorten the data of a path: round its numbers, and write horizontal and vertical lines as H and V."""
    pieces: list[str] = []
    last = x = y = ""
    for command, group in _commands(data):
        numbers = [_short(float(number)) for number in group]
        if command not in "MLQCz":  # the commands that matplotlib writes
            return data
        if command == "L" and numbers[1] == y:
            command, written = "H", numbers[:1]
        elif command == "L" and numbers[0] == x:
            command, written = "V", numbers[1:]
        else:
            written = numbers
        # A repeated command may be left out, and so may L after M.
        same = command == last or (command, last) == ("L", "M")
        pieces.append((" " if same and command != "M" else command) + " ".join(written))
        last = command
        if numbers:
            x, y = numbers[-2:]
    return "".join(pieces)


def _commands(data: str) -> list[tuple[str, list[str]]]:
    """The commands of the data of a path, each with its numbers."""
    found: list[tuple[str, list[str]]] = []
    for token in _TOKEN.findall(data):
        if token.isalpha():
            found.append((token, []))
        elif found:
            found[-1][1].append(token)
    return found


def _join_groups(lines: list[str]) -> list[str]:
    """Join successive groups that have the same tag, which sets a clip path, and contain only paths and uses."""
    joined: list[str] = []
    closed = ""  # the tag of the group that the last line closed, if it can be joined with the next
    inside = ""  # the tag of the current group, if it can be joined
    for line in lines:
        if line == closed and joined[-1] == "</g>":
            joined.pop()
            inside, closed = line, ""
            continue
        if line.startswith("<g clip-path="):
            inside = line
        elif line == "</g>":
            closed, inside = inside, ""
        elif not _ELEMENT.fullmatch(line):
            inside = ""
        joined.append(line)
    return joined


def _group_by_style(lines: list[str]) -> list[str]:
    """Put a group with their style around successive elements of one style, which keep their own fills."""
    shared: list[str] = []
    for attributes, group in groupby(lines, key=_attributes_except_fill):
        run = list(group)
        if not attributes or len(run) < _MIN_RUN:
            shared += run
        else:
            shared += [f"<g{attributes}>", *map(_only_fill, run), "</g>"]
    return shared


def _attributes_except_fill(line: str) -> str:
    """The clip path and the style of a path or use, without the fill; empty for other lines."""
    # A clip path is in the coordinates of its element: with a transform, these are not those of the group.
    style = _STYLE.search(line)
    if style is None or not _ELEMENT.fullmatch(line) or " transform=" in line:
        return ""
    clip = _CLIP.search(line)
    shared = ";".join(part for part in style[0].split(";") if not part.startswith("fill:"))
    return (clip[0] if clip else "") + (f' style="{shared}"' if shared else "")


def _only_fill(line: str) -> str:
    """A path or use with only the fill of its style, and without its clip path."""

    def fill(found: re.Match[str]) -> str:
        return "".join(part for part in found[0].split(";") if part.startswith("fill:"))

    return _STYLE.sub(fill, _CLIP.sub("", line)).replace(' style=""', "")
