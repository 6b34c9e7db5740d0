"""Smaller SVG documents: the same drawing in half the bytes.

matplotlib writes coordinates with six decimals and a style at every mark, RDKit the outline of a letter wherever it is.
What is rounded away is less than a hundredth of a point.
"""

import hashlib
import re
from itertools import groupby

from molattn.viewer.glyphs import Glyphs

_DECIMALS = 2  # of a point: invisible at any zoom of a screen
_MIN_RUN = 3  # marks of one style that are worth a group
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HIDDEN = "\x00"  # stands for a comment; XML has no such character
_DATA = re.compile(r'(?<= d=")[^"]*')
_PLACE = re.compile(r'(?<= [xy]=")-?\d+\.\d+(?=")|(?<=translate\()[^)]*')
_STYLE = re.compile(r'(?<= style=")[^"]*')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_TOKEN = re.compile(rf"[A-Za-z]|{_NUMBER.pattern}")
_MARK = re.compile(r"<(?:use|path) [^>]*/>")
_PATCH = re.compile(r'<g id="patch_\d+">\n(<path [^>]*/>)\n</g>')  # nothing refers to these groups
_LETTER = re.compile(r' transform="translate\((\S+) 0\)"(?=/>)')
_CLIP = re.compile(r' clip-path="([^"]*)"')


def compact(svg: str) -> str:
    """The SVG of matplotlib, with the same drawing, short numbers, and the styles of similar marks at their group.

    >>> compact('<path d="M 0.123456 1 \\nL 7 1 \\nL 7 5.0004 \\nz\\n" style="fill: #ffffff"/>')
    '<path d="M.12 1H7V5z" style="fill:#ffffff"/>'
    """
    comments = _COMMENT.findall(svg)  # they hold the texts of the picture and are left alone
    text = _DATA.sub(lambda found: _short_path(found[0]), _COMMENT.sub(_HIDDEN, svg))
    text = _PLACE.sub(lambda found: _NUMBER.sub(lambda number: _short(float(number[0])), found[0]), text)
    text = _STYLE.sub(lambda found: re.sub(r"([:;]) +", r"\1", found[0]), text)
    text = "\n".join(line.lstrip(" ") for line in text.split("\n"))
    text = _LETTER.sub(r' x="\1"', _PATCH.sub(r"\1", text))
    lines = _shared_styles(_joined_groups(text.split("\n")))
    restored = iter(comments)
    return re.sub(_HIDDEN, lambda _: next(restored), "\n".join(lines))


def share_letters(svg: str, letter: re.Pattern[str]) -> str:
    """The SVG with each outline of a letter once, and a reference to it wherever the letter stands.

    Args:
        svg: the document.
        letter: matches the element of a letter; its groups are the path and the rest of the attributes.
    """
    glyphs = Glyphs()
    svg = re.sub(r"<path d='' [^>]*/>\n", "", svg)  # of blanks
    places = [(*glyphs.add(found[1]), found[2].strip()) for found in letter.finditer(svg)]
    # Of the content, since pictures on one page share their ids: equal ones then have equal outlines.
    ids = ["g" + hashlib.sha256(path.encode()).hexdigest()[:8] for path in glyphs.paths]
    uses = iter(
        f"<use xlink:href='#{ids[k]}' x='{_short(x)}' y='{_short(y)}'{f' {rest}' if rest else ''}/>"
        for k, x, y, rest in places
    )
    outlines = "".join(f"<path id='{i}' d='{path}'/>\n" for i, path in zip(ids, glyphs.paths, strict=True))
    return _before_content(letter.sub(lambda _: next(uses), svg), f"<defs>\n{outlines}</defs>\n" if ids else "")


def _before_content(svg: str, definitions: str) -> str:
    """The SVG with definitions after its first tag."""
    end = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:end]}\n{definitions}{svg[end:].lstrip()}"


def _short(number: float) -> str:
    """A number with at most two decimals and no needless character.

    >>> [_short(x) for x in (12.3456, -0.5, 0.001, 3.0)]
    ['12.35', '-.5', '0', '3']
    """
    text = f"{round(number, _DECIMALS) + 0.0:.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return re.sub(r"^(-?)0(?=\.)", r"\1", text)


def _short_path(data: str) -> str:
    """The data of a path of absolute coordinates, with short numbers and with lines along the axes as H and V."""
    pieces: list[str] = []
    last = x = y = ""
    for command, group in _commands(data):
        numbers = [_short(float(number)) for number in group]
        if command not in "MLQCz":  # nothing that matplotlib writes
            return data
        if command == "L" and numbers[1] == y:
            command, written = "H", numbers[:1]
        elif command == "L" and numbers[0] == x:
            command, written = "V", numbers[1:]
        else:
            written = numbers
        # A letter that is repeated may be left out; lines follow a move without one.
        same = command == last or (command, last) == ("L", "M")
        pieces.append((" " if same and command != "M" else command) + " ".join(written))
        last = command
        if numbers:
            x, y = numbers[-2:]
    return "".join(pieces)


def _commands(data: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for token in _TOKEN.findall(data):
        if token.isalpha():
            found.append((token, []))
        elif found:
            found[-1][1].append(token)
    return found


def _joined_groups(lines: list[str]) -> list[str]:
    """Groups of marks that follow each other and have the same tag, such as a clip path, as one."""
    joined: list[str] = []
    opened = ""  # the tag of the group that has just been closed, if it held marks alone
    inside = ""
    for line in lines:
        if line == opened and joined[-1] == "</g>":
            joined.pop()
            inside, opened = line, ""
            continue
        if line.startswith("<g clip-path="):
            inside = line
        elif line == "</g>":
            opened, inside = inside, ""
        elif not _MARK.fullmatch(line):
            inside = ""
        joined.append(line)
    return joined


def _shared_styles(lines: list[str]) -> list[str]:
    """Marks that follow each other in one style, with this style at a group around them; their fills stay."""
    shared: list[str] = []
    for attributes, group in groupby(lines, key=_attributes_except_fill):
        run = list(group)
        if not attributes or len(run) < _MIN_RUN:
            shared += run
        else:
            shared += [f"<g{attributes}>", *map(_only_fill, run), "</g>"]
    return shared


def _attributes_except_fill(line: str) -> str:
    """The clip path and the style, without its fill, of a mark; empty for what is none."""
    # A clip path has the coordinates of its element: where these are transformed, it cannot be moved.
    style = _STYLE.search(line)
    if style is None or not _MARK.fullmatch(line) or " transform=" in line:
        return ""
    clip = _CLIP.search(line)
    kept = ";".join(part for part in style[0].split(";") if not part.startswith("fill:"))
    return (clip[0] if clip else "") + (f' style="{kept}"' if kept else "")


def _only_fill(line: str) -> str:
    """A mark without its clip path and its style, but for the fill."""

    def fill(found: re.Match[str]) -> str:
        return "".join(part for part in found[0].split(";") if part.startswith("fill:"))

    return _STYLE.sub(fill, _CLIP.sub("", line)).replace(' style=""', "")
