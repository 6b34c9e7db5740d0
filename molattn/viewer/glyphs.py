"""The outlines of the letters of drawings, each kept once, whatever the number of molecules that have it."""

import re

import numpy as np

_TOKEN = re.compile(r"[A-Z]|-?\d+(?:\.\d+)?")
_TOLERANCE = 0.2
"""In pixels: outlines that differ by less are one letter, rounded at two places."""


class Glyphs:
    """The outlines of letters, each once: paths relative to their first point.

    Attributes:
        paths: SVG paths that begin at the origin.
    """

    def __init__(self):
        self.paths: list[str] = []
        self._known: dict[str, list[tuple[int, np.ndarray]]] = {}

    def place(self, path: str) -> tuple[int, float, float]:
        """The index of the outline of an SVG path, and its first point, (x, y)."""
        tokens = _TOKEN.findall(path)
        commands = "".join(t if t.isalpha() else "." for t in tokens)
        points = np.array([float(t) for t in tokens if not t.isalpha()]).reshape(-1, 2)
        x, y = points[0].tolist()
        points = points - points[0]
        for index, known in self._known.setdefault(commands, []):
            if np.abs(known - points).max() <= _TOLERANCE:
                return index, x, y
        numbers = iter(np.round(points, 1).ravel().tolist())
        text = "".join(t if t.isalpha() else f"{next(numbers):g} " for t in tokens)
        self._known[commands].append((len(self.paths), points))
        self.paths.append(re.sub(r" (?=[A-Z]|$)", "", text))
        return len(self.paths) - 1, x, y
