"""A summary of attention heads on a terminal."""

from typing import TYPE_CHECKING

from molattn.cli.terminal import console, print_line

if TYPE_CHECKING:
    from molattn.explain import HeadSummary

_SHORT = {
    "bonded": "1",
    "2 bonds": "2",
    "3 bonds": "3",
    "farther": ">3",
    "other fragment": "other",
    "virtual node": "virtual",
}
_LEGEND = (
    "head: layer.head; entropy: in % of log n; looks most at: the functional group whose share, from all other",
    "atoms, is the most times that of uniform attention. The tables of -o have all groups, elements and numbers.",
)


def print_summary(summary: "HeadSummary") -> None:
    """Print each head's shares by distance, its entropy and its preference, in 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    distances = [key for key in summary.keys("distance") if summary.uniform(key)]
    spread = summary.keys("entropy")
    title = f"{summary.molecules:,} molecules, {summary.atoms:,} atoms: % of attention by bonds between the atoms"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in ("head", *(_SHORT.get(key[2], key[2]) for key in distances), "entropy", "looks most at"):
        table.add_column(name, justify="left" if name == "looks most at" else "right", no_wrap=True)
    table.add_row("uniform", *(_percent(summary.uniform(key)) for key in distances), *["100"][: len(spread)])
    layers, heads = summary.shape or (0, 0)
    for layer in range(layers):
        table.add_section()
        for head in range(heads):
            shares = [_percent(float(summary.share(key)[layer, head])) for key in (*distances, *spread)]
            table.add_row(f"{layer}.{head}", *shares, *[""][len(spread) :], _preference(summary, layer, head))
    console().print(table)
    for line in _LEGEND:
        print_line(line)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _preference(summary: "HeadSummary", layer: int, head: int) -> str:
    """The functional group with the highest ratio above 1, among groups that at least 100 atoms could attend to."""
    from molattn.explain.head_summary import OTHERS

    ratios = {
        key[2]: float(summary.share(key)[layer, head] / summary.uniform(key))
        for key in summary.keys("group")
        if key[1] == OTHERS and summary.receivers(key) >= 100 and summary.uniform(key)
    }
    best = max(ratios, key=lambda name: ratios[name], default="")
    return f"{best} {ratios[best]:.1f}x" if best and ratios[best] > 1 else ""
