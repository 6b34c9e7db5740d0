"""Positions of the labels of atoms: next to the discs, where they overlap with as little as possible."""

from collections.abc import Sequence

import numpy as np

_ANGLES, _GAPS = 24, (0.15, 0.9)  # candidates: directions, and gaps between disc and label in font sizes
_HALF_WIDTH, _HALF_HEIGHT = 0.29, 0.4  # of a letter, in font sizes
# Costs of a candidate: for being outside of the picture; for each disc, letter or label that it overlaps with; for each
# bond that crosses it; for each font size by which its gap is wider than the smallest.
_OUTSIDE_COST, _OVERLAP_COST, _CROSSING_COST, _GAP_COST = 1000.0, 30.0, 4.0, 3.0


def place_labels(
    texts: Sequence[str],
    centers: np.ndarray,
    radius: float,
    bonds: np.ndarray,
    letters: np.ndarray,
    font: float,
    size: tuple[int, int],
) -> np.ndarray:
    """Choose positions for the labels of atoms, one after the other, as boxes [x, y, half the width, half the height].

    The candidates are positions around the disc of the atom, and the one with the lowest cost is chosen: a label should
    be inside the picture, overlap with no disc, letter or other label, and cross no bond. Among candidates of equal
    cost, it is opposite to the bonds of its atom.

    Args:
        texts: n labels.
        centers: (n, 2) centers of the discs, in pixels; y points down.
        radius: radius of the discs, in pixels.
        bonds: (m, 2) indices of atoms.
        letters: (k, 4) boxes of the element symbols in the drawing.
        font: font size, in pixels.
        size: width and height of the picture, in pixels.

    Returns:
        The boxes, (n, 4), in pixels. Where there is no room, a label overlaps with something.

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
        half = np.array([_HALF_WIDTH * font * len(text), _HALF_HEIGHT * font])
        boxes = centers[i] + directions * (radius + gaps[:, None] * font + half)
        low, high = boxes - half, boxes + half
        outside = ((low < 0) | (high > size)).any(1)
        # From the center of a disc to the nearest point of a label.
        offsets = np.maximum(np.abs(boxes[:, None] - centers) - half, 0)
        overlaps = (np.hypot(*np.moveaxis(offsets, -1, 0)) < radius).sum(1)
        for others in (letters, placed[:i]):
            close = np.abs(boxes[:, None] - others[:, :2]) < half + others[:, 2:] + 0.1 * font
            overlaps += close.all(-1).sum(1)
        away = -_normalize(centers[bonds[bonds[:, 0] == i, 1]] - centers[i]).sum(0) if len(bonds) else np.zeros(2)
        away = away - _normalize(centers[bonds[bonds[:, 1] == i, 0]] - centers[i]).sum(0) if len(bonds) else away
        cost = _OUTSIDE_COST * outside + _OVERLAP_COST * overlaps + _CROSSING_COST * _crossings(low, high, ends)
        cost = cost - directions @ away + _GAP_COST * (gaps - gaps[0])
        placed[i, :2], placed[i, 2:] = boxes[cost.argmin()], half
    return placed


def _normalize(vectors: np.ndarray) -> np.ndarray:
    """The vectors, (..., 2), scaled to length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def _crossings(low: np.ndarray, high: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many of the lines between ends, (m, 2, 2), cross each of the boxes from low to high, (c, 2): (c,)."""
    start, step = ends[:, 0], ends[:, 1] - ends[:, 0]
    step = np.where(np.abs(step) < 1e-9, 1e-9, step)
    # Where each line enters and leaves the range of the box in x, and in y: it crosses the box if these overlap.
    first, last = (np.asarray(side)[:, None] - start for side in (low, high))
    entry, leave = np.minimum(first / step, last / step).max(-1), np.maximum(first / step, last / step).min(-1)
    return (np.maximum(entry, 0.0) < np.minimum(leave, 1.0)).sum(1)
