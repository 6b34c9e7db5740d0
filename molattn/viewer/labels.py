"""The places of the labels of atoms: next to their discs, where they cover as little as possible."""

from collections.abc import Sequence

import numpy as np

_ANGLES, _GAPS = 24, (0.15, 0.9)  # directions, and distances between disc and label in heights of a letter
_WIDTH, _HEIGHT = 0.29, 0.4  # half the extent of a letter, in font sizes
# The costs of a place: outside the picture; covering a disc, a letter or another label; crossing a bond; the far gap.
_OUTSIDE, _COVERED, _CROSSED, _FAR = 1000.0, 30.0, 4.0, 3.0


def place_labels(
    texts: Sequence[str],
    centers: np.ndarray,
    radius: float,
    bonds: np.ndarray,
    letters: np.ndarray,
    font: float,
    size: tuple[int, int],
) -> np.ndarray:
    """Place the labels of atoms, one after the other, as boxes [x, y, half the width, half the height].

    A label is next to its disc, in the direction with the lowest cost: it should be inside the picture, cover no disc,
    letter or other label, and cross no bond. Of equal directions it takes that away from the bonds of its atom.

    Args:
        texts: n labels.
        centers: (n, 2) of the discs, in pixels; y points down.
        radius: of the discs.
        bonds: (m, 2) indices of atoms.
        letters: (k, 4) boxes of the letters of atoms.
        font: size of the font, in pixels.
        size: width and height of the picture.

    Returns:
        (n, 4)

    >>> centers = np.array([[50.0, 50.0], [80.0, 50.0]])  # bonded from left to right
    >>> boxes = place_labels(["0", "1"], centers, 10.0, np.array([[0, 1]]), np.empty((0, 4)), 10.0, (130, 100))
    >>> boxes[:, 0].round().tolist()
    [36.0, 94.0]
    """
    angles = 2 * np.pi * np.arange(_ANGLES) / _ANGLES
    directions = np.tile(np.stack([np.cos(angles), np.sin(angles)], 1), (len(_GAPS), 1))
    gaps = np.repeat(_GAPS, _ANGLES)
    placed = np.empty((len(texts), 4))
    ends = centers[bonds] if len(bonds) else np.empty((0, 2, 2))
    for i, text in enumerate(texts):
        half = np.array([_WIDTH * font * len(text), _HEIGHT * font])
        boxes = centers[i] + directions * (radius + gaps[:, None] * font + half)
        low, high = boxes - half, boxes + half
        outside = ((low < 0) | (high > size)).any(1)
        # From the center of a disc to the nearest point of a label.
        apart = np.maximum(np.abs(boxes[:, None] - centers) - half, 0)
        covered = (np.hypot(*np.moveaxis(apart, -1, 0)) < radius).sum(1)
        for others in (letters, placed[:i]):
            near = np.abs(boxes[:, None] - others[:, :2]) < half + others[:, 2:] + 0.1 * font
            covered += near.all(-1).sum(1)
        away = -_units(centers[bonds[bonds[:, 0] == i, 1]] - centers[i]).sum(0) if len(bonds) else np.zeros(2)
        away = away - _units(centers[bonds[bonds[:, 1] == i, 0]] - centers[i]).sum(0) if len(bonds) else away
        cost = _OUTSIDE * outside + _COVERED * covered + _CROSSED * _crossed(low, high, ends) - directions @ away
        placed[i, :2], placed[i, 2:] = boxes[(cost + _FAR * (gaps - gaps[0])).argmin()], half
    return placed


def _units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def _crossed(low: np.ndarray, high: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many of the lines between ends, (m, 2, 2), cross each of the boxes from low to high, (c, 2)."""
    start, step = ends[:, 0], ends[:, 1] - ends[:, 0]
    step = np.where(np.abs(step) < 1e-9, 1e-9, step)
    # Where along the line it enters and leaves the box in x, and in y: it crosses where it is inside of both.
    first, last = (np.asarray(side)[:, None] - start for side in (low, high))
    entry, leave = np.minimum(first / step, last / step).max(-1), np.maximum(first / step, last / step).min(-1)
    return (np.maximum(entry, 0.0) < np.minimum(leave, 1.0)).sum(1)
