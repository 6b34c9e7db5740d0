"""A summary of attention heads on a terminal."""

from typing import TYPE_CHECKING

from molattn.cli.terminal import console, print_line

if TYPE_CHECKING:
    from molattn.explain import HeadSummary

_COLUMN_NAMES = {
    "bonded": "1",
    "2 bonds": "2",
    "3 bonds": "3",
    "farther": ">3",
    "other fragment": "other",
    "virtual node": "virtual",
}
_LEGEND = (
    "head: layer.head; entropy: in % of log n; top group: the functional group with the largest ratio of its",
    "attention from other atoms to uniform attention. The tables of -o have all groups, elements and numbers.",
)


def print_summary(summary: "HeadSummary") -> None:
    """Print each head's shares by distance, its entropy and its top functional group, in 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    distances = [key for key in summary.keys("distance") if summary.uniform(key)]
    entropy = summary.relative_entropy()
    title = (
        f"{summary.num_molecules:,} molecules, {summary.num_atoms:,} atoms: % of attention by bonds between the atoms"
    )
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in ("head", *(_COLUMN_NAMES.get(key.sender, key.sender) for key in distances), "entropy", "top group"):
        table.add_column(name, justify="left" if name == "top group" else "right", no_wrap=True)
    table.add_row("uniform", *(_percent(summary.uniform(key)) for key in distances), "" if entropy is None else "100")
    layers, heads = summary.shape or (0, 0)
    for layer in range(layers):
        table.add_section()
        for head in range(heads):
            shares = [_percent(float(summary.share(key)[layer, head])) for key in distances]
            shares.append("" if entropy is None else _percent(float(entropy[layer, head])))
            table.add_row(f"{layer}.{head}", *shares, _top_group(summary, layer, head))
    console().print(table)
    for line in _LEGEND:
        print_line(line)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _top_group(summary: "HeadSummary", layer: int, head: int) -> str:
    group, ratio = summary.top_group(layer, head)
    return f"{group} {ratio:.1f}x" if group else ""
