"""Metrics on a terminal: a table for each target, or one for all where there are many."""

from collections.abc import Mapping
from typing import Any

ALONE = 3
"""Targets up to which each has a table of its own."""


def print_metrics(
    measured: Mapping[str, Mapping[str, Any]],
    molecules: str,
    units: Mapping[str, str],
    baseline: Mapping[str, Mapping[str, Any]] | None = None,
    always: str = "",
) -> None:
    """Print metrics target by target, with the reason of each that is undefined.

    Args:
        measured: {target: {metric: value, "n": labels}}.
        molecules: what the labels are of, such as "test molecules".
        units: unit of each target, empty where unknown.
        baseline: the same for the answer that needs no molecule; None for none.
        always: that answer in words.
    """
    from molattn.training.metrics import METRICS

    names = [name for name in METRICS if name in next(iter(measured.values()))]
    if len(measured) <= ALONE:
        for target, model in measured.items():
            columns = {"this model": model}
            if baseline is not None:
                columns[f"always {always}"] = baseline[target]
            unit = f" in {units[target]}" if units[target] and any(METRICS[n].has_unit for n in names) else ""
            print(f"\n{target}{unit}, {model['n']} {molecules}:")
            _print(["", *columns], [[METRICS[n].label, *(number(c[n]) for c in columns.values())] for n in names])
    else:
        print(f"\n{molecules}:")
        rows = [[target, str(m["n"]), *(number(m[n]) for n in names)] for target, m in measured.items()]
        rows.append(["mean of all", "", *(_mean(measured, n) for n in names)])
        if baseline is not None:
            rows.append([f"always {always}", "", *(_mean(baseline, n) for n in names)])
        _print(["", "labels", *(METRICS[n].label for n in names)], rows)
    for target, model in measured.items():
        for name, reason in model.get("why", {}).items():
            print(f"{target}: {METRICS[name].label} is undefined: {reason}")


def _print(heads: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, head in enumerate(heads):
        table.add_column(Text(head), justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def _mean(measured: Mapping[str, Mapping[str, Any]], name: str) -> str:
    from molattn.training.metrics import mean_over_targets

    return number(mean_over_targets(measured, (name,))[name])


def number(value: float | None) -> str:
    """A measured value with three decimals."""
    # Adding zero turns -0.0 into 0.0.
    return "undefined" if value is None else f"{round(value, 3) + 0.0:.3f}"
