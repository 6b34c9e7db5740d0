"""Pictures of a data set as SVG within the page: each has a text alternative, and takes the colors of the theme."""

from collections.abc import Sequence
from html import escape

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

_WIDTH, _HEIGHT = 440, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 16, 44
_BINS = 24


def histogram(y: np.ndarray, label: str) -> str:
    """How many rows have which value, as an SVG.

    Args:
        y: (n,) the values.
        label: what they are, with their unit.
    """
    counts, edges = np.histogram(y, bins=_BINS)
    x_of = _scale(edges[0], edges[-1], _LEFT, _WIDTH - _RIGHT)
    top = _rounded_up(counts.max())
    y_of = _scale(0, top, _HEIGHT - _BOTTOM, _TOP)
    bars = [
        f'<rect x="{x_of(a) + 0.5:.1f}" y="{y_of(n):.1f}" width="{x_of(b) - x_of(a) - 1:.1f}" '
        f'height="{y_of(0) - y_of(n):.1f}"/>'
        for n, a, b in zip(counts, edges, edges[1:], strict=False)
    ]
    base = _HEIGHT - _BOTTOM
    texts = [_text(x_of(tick), base + 18, f"{tick:g}") for tick in _ticks(edges[0], edges[-1])]
    texts += [_text(_LEFT - 6, y_of(n) + 4, f"{n:g}", "end") for n in (0, top / 2, top)]
    texts += [_text((_LEFT + _WIDTH) / 2, _HEIGHT - 6, label), _text(_LEFT + 4, _TOP + 4, "rows", "start")]
    line = f'<path d="M{_LEFT} {base}H{_WIDTH - _RIGHT}" stroke="currentColor" fill="none"/>'
    alternative = (
        f"Histogram of {label}: {len(y):,} rows from {y.min():.2f} to {y.max():.2f}, "
        f"most of them around {edges[counts.argmax() : counts.argmax() + 2].mean():.1f}."
    )
    shapes = f'<g class="bars">{"".join(bars)}</g>{line}{"".join(texts)}'
    return _figure("histogram", _svg(alternative, shapes))


def molecule_grid(molecules: Sequence[tuple[Chem.Mol, str, str]]) -> str:
    """Drawings of molecules side by side.

    Args:
        molecules: each with its SMILES and its caption.
    """
    return _figure("molecules", "".join(_drawing(*molecule) for molecule in molecules))


def _drawing(mol: Chem.Mol, smiles: str, caption: str) -> str:
    drawer = rdMolDraw2D.MolDraw2DSVG(180, 130)
    options = drawer.drawOptions()
    options.clearBackground = False
    options.bondLineWidth = 1
    options.padding = 0.08
    options.fixedBondLength = 26
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    shapes = " ".join(text[text.index("<!-- END OF HEADER -->") + 22 : text.rindex("</svg>")].split())
    svg = _svg(f"Structure of {smiles}, {caption}", shapes, 180, 130)
    return f'<div class="molecule">{svg}<span>{escape(caption)}</span><code>{escape(smiles)}</code></div>'


def _svg(alternative: str, shapes: str, width: int = _WIDTH, height: int = _HEIGHT) -> str:
    title = escape(alternative)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{shapes}</svg>'


def _figure(name: str, content: str) -> str:
    # In one line: a blank line would end the HTML in Markdown.
    return f'<div class="{name}">{content}</div>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _scale(low: float, high: float, first: float, last: float):
    return lambda x: first + (x - low) / (high - low) * (last - first)


def _rounded_up(n: float) -> float:
    """The next of 1, 2, 4, 5, 10, 20, ..."""
    power = 10.0 ** np.floor(np.log10(max(n, 1)))
    return next(power * step for step in (1, 2, 4, 5, 6, 8, 10) if power * step >= n)


def _ticks(low: float, high: float) -> np.ndarray:
    step = _rounded_up((high - low) / 8)
    return np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
