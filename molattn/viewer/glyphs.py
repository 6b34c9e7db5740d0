"""The glyphs of a drawing: the outline of each letter, stored once for all the places where it is drawn."""

import re

import numpy as np

_TOKEN = re.compile(r"[A-Z]|-?\d+(?:\.\d+)?")
_TOLERANCE = 0.2
"""In pixels. RDKit rounds coordinates, so two outlines of one letter differ slightly: those within it are equal."""


class Glyphs:
    """A collection of different glyphs.

    Attributes:
        paths: the SVG path of each glyph, moved so that its first point is the origin.

    >>> glyphs = Glyphs()
    >>> glyphs.add("M 1.0 2.0 L 3.0 2.0"), glyphs.add("M 5.0 5.0 L 7.0 5.0")
    ((0, 1.0, 2.0), (0, 5.0, 5.0))
    >>> glyphs.paths
    ['M0 0L2 0']
    """

    def __init__(self):
        self.paths: list[str] = []
        self._by_commands: dict[str, list[tuple[int, np.ndarray]]] = {}

    def add(self, path: str) -> tuple[int, float, float]:
        """Add an outline if it is new.

        Args:
            path: an SVG path of absolute commands.

        Returns:
            The index of its glyph in `paths`, and the position (x, y) of its first point.
        """
        tokens = _TOKEN.findall(path)
        commands = "".join(t if t.isalpha() else "." for t in tokens)
        points = np.array([float(t) for t in tokens if not t.isalpha()]).reshape(-1, 2)
        x, y = points[0].tolist()
        points = points - points[0]
        for index, known in self._by_commands.setdefault(commands, []):
            if np.abs(known - points).max() <= _TOLERANCE:
                return index, x, y
        numbers = iter(np.round(points, 1).ravel().tolist())
        text = "".join(t if t.isalpha() else f"{next(numbers):g} " for t in tokens)
        self._by_commands[commands].append((len(self.paths), points))
        self.paths.append(re.sub(r" (?=[A-Z]|$)", "", text))
        return len(self.paths) - 1, x, y
