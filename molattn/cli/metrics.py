"""Metrics on a terminal: a table for each of a few targets, or one table for many targets."""

from collections.abc import Mapping, Sequence
from typing import Any

from molattn.cli.terminal import console, print_line

MAX_TRANSFORMED = 12
"""The maximum number of targets whose metrics are printed in the unit of their transform."""
MAX_TABLES = 3
"""Up to this many targets, each has its own table."""

LARGE = 1e5
"""Numbers from this on, such as errors of a concentration in nM, are printed with four significant digits."""


def print_metrics(
    metrics: Mapping[str, Mapping[str, Any]],
    noun: str,
    units: Mapping[str, str],
    baseline: Mapping[str, Mapping[str, Any]] | None = None,
    baseline_labels: Mapping[str, str] | None = None,
    unseen: Mapping[str, Mapping[str, Any]] | None = None,
    intervals: Mapping[str, Mapping[str, Any]] | None = None,
    other_models: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> None:
    """Print metrics target by target, with the reason of each that is undefined.

    Args:
        metrics: {target: {metric: value, "n": labels}}.
        noun: what has labels, such as "test molecules".
        units: unit of each target, empty where unknown.
        baseline: the same for a constant prediction; None for none.
        baseline_labels: the name of that prediction for each target, such as "the mean"; needed with `baseline`.
        unseen: the same for molecules that were not used in training; None if they are not reported.
        intervals: {target: {metric: [lower, upper]}} of `metrics`, shown as a column of a table; None for none.
        other_models: the same as `metrics` for other models, by their names.
    """
    from molattn.data.tables.units import name_has_unit
    from molattn.training.metrics import METRICS

    other_models, labels_of_baseline = other_models or {}, baseline_labels or {}
    names = [name for name in METRICS if name in next(iter(metrics.values()))]
    if len(metrics) <= MAX_TABLES:
        for target, model in metrics.items():
            columns = {"all" if unseen else "this model": [number(model[n]) for n in names]}
            if intervals and not unseen:
                columns["95% interval"] = [_interval(intervals[target][n]) for n in names]
            if unseen:
                columns[f"the {unseen[target]['n']} not seen in training"] = [number(unseen[target][n]) for n in names]
            for model_name, other in other_models.items():
                columns[model_name] = [number(other[target][n]) for n in names]
            if baseline:
                columns[f"always {labels_of_baseline[target]}"] = [number(baseline[target][n]) for n in names]
            unit = units[target]
            shown = unit and not name_has_unit(target, unit) and any(METRICS[n].has_unit for n in names)
            in_unit = f" in {unit}" if shown else ""
            print_line()
            print_line(f"{target}{in_unit}, {model['n']} {noun}{_censored(model)}:")
            labels = [METRICS[n].label for n in names]
            _print(["", *columns], [list(row) for row in zip(labels, *columns.values(), strict=True)])
    else:
        print_line()
        print_line(f"{noun}:")
        rows = [[target, f"{m['n']}{_censored(m)}", *(number(m[n]) for n in names)] for target, m in metrics.items()]
        rows.append(["mean of all", "", *(_mean(metrics, n) for n in names)])
        if unseen:
            rows.append(["mean of those not seen in training", "", *(_mean(unseen, n) for n in names)])
        rows += [[name, "", *(_mean(other, n) for n in names)] for name, other in other_models.items()]
        if baseline:
            labels = set(labels_of_baseline.values())
            constant = labels.pop() if len(labels) == 1 else "the training mean of what is learned"
            rows.append([f"always {constant}", "", *(_mean(baseline, n) for n in names)])
        _print(["", "labels", *(METRICS[n].label for n in names)], rows)
    for target, model in metrics.items():
        for name, reason in model.get("why", {}).items():
            print_line(f"{target}: {METRICS[name].label} is undefined: {reason}")


def print_transformed(metrics: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the metrics of targets that have a transform, in its unit, one line per target."""
    from molattn.training.metrics import METRICS

    for target, values in list(metrics.items())[:MAX_TRANSFORMED]:
        texts = [f"{METRICS[n].label} {number(values[n])}" for n in METRICS if n in values]
        print_line(f"{target} as {values['unit']}: {', '.join(texts)}")


def _print(header: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)


def _censored(metrics: Mapping[str, Any]) -> str:
    """How many labels are not evaluated, since they are censored (bounds); empty for none."""
    count = metrics.get("censored", 0)
    return f" ({count} more with a bound only)" if count else ""


def _mean(metrics: Mapping[str, Mapping[str, Any]], name: str) -> str:
    from molattn.training.metrics import mean_over_targets

    return number(mean_over_targets(metrics, (name,))[name])


def _interval(bounds: Sequence[float] | None) -> str:
    return "undefined" if bounds is None else " to ".join(map(number, bounds))


def number(value: float | None) -> str:
    """The value with three decimals, with four digits if it is large, or "undefined"."""
    if value is not None and abs(value) >= LARGE:
        return f"{value:.4g}"
    # Adding zero turns -0.0 into 0.0.
    return "undefined" if value is None else f"{round(value, 3) + 0.0:.3f}"
