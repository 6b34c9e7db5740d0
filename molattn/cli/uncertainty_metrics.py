"""Metrics of uncertainties on a terminal, with an explanation of each."""

from collections.abc import Mapping
from typing import Any

from molattn.cli.terminal import print_line

MAX_UNCERTAINTIES = 12
"""The maximum number of targets whose uncertainties are printed."""

EXPLANATIONS = {
    "coverage": "within {level}%: the share of true values inside the {level}% intervals; {level}% is ideal",
    "width": "mean width: of these intervals; narrower is better if the share is right",
    "size": "mean size: the number of classes in a set that contains the true one with {level}% probability; 1 is best",
    "nll": "NLL: negative log-likelihood of the true values; lower is better",
    "ence": "ENCE: relative gap between predicted standard deviations and actual errors; 0 is best",
    "ece": "ECE: mean gap between predicted probabilities and how often they are right; 0 is best",
    "miscalibration_area": "miscalibration area: mean gap between coverage and level, over all levels; 0 is best",
}
"""An explanation of each metric, in one line."""


def print_uncertainty(metrics: Mapping[str, Any], noun: str, units: Mapping[str, str]) -> None:
    """Print the metrics of a run's uncertainties, one line per target; `noun` is what has labels: "test molecules"."""
    calibration, level = metrics["calibration"], metrics["level"]
    method = f"uncertainty by {metrics['method']}" if metrics["method"] != "none" else "no uncertainty estimate"
    print_line()
    print_line(f"{method}, calibration {calibration}; {noun}:")
    for target, values in list(metrics["test"].items())[:MAX_UNCERTAINTIES]:
        unit = f" {units[target]}" if units.get(target) else ""
        describe = {
            "coverage": lambda v: f"{100 * v:.1f}% within {100 * level:g}%",
            "width": lambda v, unit=unit: f"mean width {v:.3g}{unit}",
            "size": lambda v: f"mean size {v:.2f}",
            "nll": lambda v: f"NLL {v:.3g}",
            "ence": lambda v: f"ENCE {v:.2f}",
            "ece": lambda v: f"ECE {v:.3f}",
            "miscalibration_area": lambda v: f"miscalibration area {v:.3f}",
        }
        texts = [describe[name](v) for name, v in values.items() if name in describe and v is not None]
        print_line(f"  {target}: {', '.join(texts)}")
        if "why" in values:
            print_line(f"  {target}: no coverage: {values['why']['coverage']}")
    if len(metrics["test"]) > MAX_UNCERTAINTIES:
        print_line(f"  and {len(metrics['test']) - MAX_UNCERTAINTIES} more targets, see metrics.json")
    printed = {name for values in metrics["test"].values() for name, v in values.items() if v is not None}
    for name, text in EXPLANATIONS.items():
        if name in printed:
            print_line(f"  {text.format(level=f'{100 * level:g}')}")
