"""Equations as MathML, which browsers show without a script or a font from the network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    """Register the renderer, and choose it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    equation = convert(node.astext(), display="block")
    translator.body.append(f'<div class="equation">{equation}</div>\n')
    raise nodes.SkipNode
