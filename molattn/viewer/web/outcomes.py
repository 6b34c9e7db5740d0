"""What is predicted and measured of a molecule for each target, for the index of the page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from molattn.data.tables.units import name_has_unit
from molattn.viewer.web.json_values import json_number, visible_text

MeasuredValues = Mapping[str, float | str | None]
"""Measured values by target name: a number, or for a target of classes the name of the class."""


def outcomes(
    prediction: Mapping[str, float],
    units: Mapping[str, str],
    truth: MeasuredValues,
    classes: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """For each target its "predicted" and "true" value, a number or the name of a class, and its "error".

    The error is the prediction minus the true value, and for classes 1 - p(true class). Classes have a "probability" as
    well: of two classes that of the second one, whose name is "of", and of several that of the predicted one.

    Args:
        prediction: a number by the name of its target; of a target of two classes the probability of the second one,
            and of several one for each class, by `NAME_prob_CLASS`.
        units: by the name of the target; left out where the name has it.
        truth: by the name of the target.
        classes: the names of the classes of each target of classes.
    """
    of_column = {f"{target}_prob_{c}": target for target, names in classes.items() for c in names}
    targets = dict.fromkeys([of_column.get(name, name) for name in prediction] + list(truth))
    found = []
    for target in targets:
        true = truth.get(target)
        if target in classes:
            own = _class_outcome(_probabilities(target, classes[target], prediction), true, classes[target])
        else:
            own = _number_outcome(prediction.get(target), true)
        unit = units.get(target, "")
        shown = "" if name_has_unit(target, unit) else visible_text(unit)
        found.append({"target": visible_text(target), "unit": shown, **own})
    return found


def _number_outcome(predicted: float | None, true: float | str | None) -> dict[str, Any]:
    number = json_number(predicted)
    if isinstance(true, str):
        return {"predicted": number, "true": visible_text(true), "error": None}
    error = None if number is None or true is None else number - true
    return {"predicted": number, "true": json_number(true), "error": json_number(error)}


def _class_outcome(p: Sequence[float], true: float | str | None, names: Sequence[str]) -> dict[str, Any]:
    index = _class_index(true, names)
    shown = visible_text(true) if isinstance(true, str) else json_number(true)
    found: dict[str, Any] = {"predicted": None, "true": shown if index is None else visible_text(names[index])}
    found |= {"probability": None, "of": visible_text(names[1]) if len(names) == 2 else "", "error": None}
    if p and all(map(math.isfinite, p)):
        best = max(range(len(p)), key=p.__getitem__)
        found |= {"predicted": visible_text(names[best]), "probability": json_number(p[1 if len(p) == 2 else best])}
        found["error"] = None if index is None else json_number(1 - p[index])
    return found


def _probabilities(target: str, names: Sequence[str], prediction: Mapping[str, float]) -> list[float]:
    """The probability of each class; empty if they are not predicted."""
    if target in prediction:
        return [1 - prediction[target], prediction[target]]
    columns = [f"{target}_prob_{c}" for c in names]
    return [prediction[c] for c in columns] if all(c in prediction for c in columns) else []


def _class_index(true: float | str | None, names: Sequence[str]) -> int | None:
    """The index of a class by its name, which may be a number; None for none."""
    name = f"{true:g}" if isinstance(true, float | int) else true
    return names.index(name) if name in names else None
