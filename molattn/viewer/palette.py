"""The colors of all pictures and pages, each with one meaning.

Attention weights, which have no sign, are green. Signed values, and ratios to uniform attention, go from blue (below)
over white to orange (above). What is selected is marked in dark orange. Pages have two variants of each color, for
light and dark mode.
"""

Color = tuple[float, float, float]
"""Red, green and blue, from 0 to 1."""


def to_color(text: str) -> Color:
    """Convert "#rrggbb" to a color.

    >>> to_color("#ff0033")
    (1.0, 0.0, 0.2)
    """
    red, green, blue = (int(text[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


PAGE_COLORS: dict[str, tuple[str, str]] = {
    "background": ("#ffffff", "#14181d"),
    "hover": ("#f4f6f8", "#1e242b"),
    "text": ("#1b1f24", "#e6eaee"),
    "muted": ("#4b5560", "#a9b4bf"),
    "border": ("#c3ccd6", "#3d4854"),
    "accent": ("#1f5f9e", "#86bbf0"),
    "on-accent": ("#ffffff", "#14181d"),
    "focus": ("#b84a00", "#ffab6b"),
    "partner": ("#14507f", "#a9d0ff"),
    "highlight": ("#fdeee2", "#3a2a1c"),
    "warning": ("#8a3700", "#ffab6b"),
    "attention": ("#3fb08f", "#126e56"),
    "cell": ("#1b8a69", "#58d6b0"),
    "above": ("#f5a340", "#985006"),
    "below": ("#599ede", "#2a6296"),
    "head-0": ("#0072b2", "#56b4e9"),
    "head-1": ("#d55e00", "#ff8a3d"),
    "head-2": ("#00845f", "#2fc79b"),
    "head-3": ("#b0447f", "#e69ac3"),
    "head-4": ("#8a6d00", "#e3c53a"),
    "head-5": ("#5b4bb3", "#a99cf0"),
    "head-6": ("#6b4a2f", "#c9a27f"),
    "head-7": ("#4b5560", "#c3ccd6"),
    "train": ("#8a94a0", "#75808c"),
    "val": ("#1f78b4", "#6db5ee"),
    "test": ("#d55e00", "#ff8a3d"),
    "element-O": ("#c41e1e", "#ff8f87"),
    "element-N": ("#1f4fd0", "#8fb6ff"),
    "element-S": ("#7d6300", "#e3c53a"),
    "element-P": ("#a84a00", "#ffb070"),
    "element-F": ("#167336", "#7ad79c"),
    "element-Cl": ("#167336", "#7ad79c"),
    "element-Br": ("#8b3a1c", "#e8a184"),
    "element-I": ("#6a35b8", "#c7abff"),
}
"""The colors of pages by name, in light and in dark mode.

"attention", "above" and "below" are the colors of the largest value; the contrast of "text" with each is at least 4.5.
"cell" is that of the largest weight in a matrix, whose cells have no letters on them. "head-0" to "head-7" are for
arcs of different heads. "partner" is the second of two selected atoms. "element-O" and the like are for the letters of
structures without values, as in RDKit: oxygen is red, nitrogen blue.
"""

ELEMENTS = frozenset(name.removeprefix("element-") for name in PAGE_COLORS if name.startswith("element-"))
"""The elements whose letters are colored."""

SYSTEM_COLORS = {
    "background": "Canvas",
    "hover": "Canvas",
    "text": "CanvasText",
    "muted": "CanvasText",
    "border": "CanvasText",
    "accent": "LinkText",
    "on-accent": "Canvas",
    "focus": "Highlight",
    "partner": "LinkText",
    "highlight": "Canvas",
    "warning": "CanvasText",
    "train": "GrayText",
    "val": "LinkText",
    "test": "CanvasText",
    **dict.fromkeys((f"element-{symbol}" for symbol in sorted(ELEMENTS)), "CanvasText"),
}
"""CSS system colors for forced-colors mode (high contrast). The colors of values are not replaced."""

ATTENTION = to_color(PAGE_COLORS["attention"][0])
"""The largest attention weight. Its contrast with black is 7.8 to 1."""

ABOVE = to_color(PAGE_COLORS["above"][0])
"""The largest value above 0, or the largest ratio to uniform attention above 1; distinguishable from `BELOW` with any
color vision."""

BELOW = to_color(PAGE_COLORS["below"][0])
"""The largest value below 0, or the smallest ratio to uniform attention. Its contrast with black is 7.4 to 1."""

MARK = "#d55e00"
"""The color of rings and points that mark what is selected."""

ATTENTION_STEPS = ("#ffffff", PAGE_COLORS["attention"][0], "#07382c")
"""The colormap of attention weights in matrices, whose cells have no letters on them."""

SIGNED_STEPS = ("#123c66", PAGE_COLORS["below"][0], "#ffffff", PAGE_COLORS["above"][0], "#7a3d00")
"""The colormap of signed values in matrices, with 0 in the middle."""


def css_variables(selector: str) -> str:
    """CSS rules that define the colors as variables: light or dark by the color scheme, system colors if forced.

    Printed pages, and elements `.molattn.light-colors`, have the light colors.

    Args:
        selector: the elements that have the variables, such as ":root".

    >>> css_variables(":root").splitlines()[1]
    '  --background: light-dark(#ffffff, #14181d);'
    """
    colors = "\n".join(f"  --{name}: light-dark({light}, {dark});" for name, (light, dark) in PAGE_COLORS.items())
    system = "\n".join(f"  --{name}: {color};" for name, color in SYSTEM_COLORS.items())
    return (
        f"{selector}, .molattn.light-colors {{\n{colors}\n}}\n"
        f"{selector} {{ color-scheme: light dark; }}\n"
        f".molattn.light-colors {{ color-scheme: light; }}\n"
        f"@media print {{ {selector} {{ color-scheme: light; }} }}\n"
        f"@media (forced-colors: active) {{\n{selector} {{\n{system}\n}}\n}}\n"
    )
