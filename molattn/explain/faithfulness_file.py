"""`faithfulness.json` in a run folder: the measured faithfulness of each method, with a one-line summary."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molattn.data.files import file_sha256, write_text
from molattn.errors import MolattnWarning
from molattn.models.config_file import WEIGHTS

if TYPE_CHECKING:
    from molattn.explain.estimates import Estimate
    from molattn.explain.faithfulness import Faithfulness, MethodScores

FILE = "faithfulness.json"
SCHEMA = 1

FaithfulnessSummaries = Mapping[str, Mapping[str, str]]
"""One-line summaries, by target and method."""


def write_faithfulness(
    run: Path, model: Path, result: "Faithfulness", data: str, split: str, ground_truth_property: str
) -> dict[str, Any]:
    """Add the results of one target to the file, atomically, and return its entry.

    Args:
        run: the folder of the file.
        model: the folder of the model, to which the file is bound by a hash.
        result: the results.
        data: name of the data set or file of the molecules.
        split: their split label; empty for all molecules.
        ground_truth_property: the property with known contributions of atoms; empty for none.
    """
    entry = {
        "data": data,
        "split": split,
        "molecules": result.num_molecules,
        "molecules_with_truth": result.num_with_ground_truth,
        "truth": ground_truth_property,
        "unit": result.unit,
        "methods": {
            name: {**asdict(m), "summary": summarize(m, result, data, split)} for name, m in result.methods.items()
        },
        "untrained": {name: asdict(m) for name, m in result.untrained.items()},
    }
    old = _read(run, model) or {}
    content = {
        "schema": SCHEMA,
        "molattn": version("molattn"),
        "weights_sha256": _sha256(model),
        "targets": {**old, result.target: entry},
    }
    write_text(run / FILE, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return entry


def read_summaries(run: Path, model: Path) -> FaithfulnessSummaries:
    """The summaries for the model in the folder `model`; empty if the file is missing or belongs to another model."""
    return {
        target: {name: str(m["summary"]) for name, m in entry["methods"].items()}
        for target, entry in (_read(run, model) or {}).items()
    }


def summarize(m: "MethodScores", result: "Faithfulness", data: str, split: str) -> str:
    """The scores of one method, in one line: the accuracy, or else how well it predicts changes, or else deletion."""
    chance = result.methods["random"]
    where = " ".join(filter(None, [str(result.num_molecules), split, f"molecules of {data}"]))
    signs = "" if m.sign is None else f"{m.sign:.0%} of its signs are right"
    if m.kendall is not None and chance.kendall is not None:
        tau = (
            f"Kendall tau {m.kendall:.2f} with the true contributions to {result.target} "
            f"(random order {chance.kendall:.2f}; 1 is perfect)"
        )
        return ", ".join(filter(None, (tau, signs, where)))
    changes = [_share(m.measures, *words) for words in _CHANGES]
    if any(changes):
        return ", ".join(filter(None, (*changes, where)))
    if m.deletion_ratio is not None:
        change = f"changes {result.target} {m.deletion_ratio:.2f} times as much as random ones, whatever the sign"
        return f"removing its top atoms {change}, {where}"
    return f"not measurable on {where}"


_CHANGES = (
    ("pair_r2", "predicts", "of the variance of the measured changes in", "matched pairs"),
    ("swap_sign", "predicts the direction of", "of", "edits"),
)
"""The measures of changes that a summary can have, the most informative first, and their wording."""


def _share(measures: "Mapping[str, Estimate]", name: str, verb: str, preposition: str, noun: str) -> str:
    """One measure as text; empty if there is no value."""
    m = measures.get(name)
    if m is None or m.value is None:
        return ""
    return f"{verb} {m.value:.0%} ({m.low:.0%} to {m.high:.0%}) {preposition} {m.count} {noun}"


def _read(run: Path, model: Path) -> dict[str, Any] | None:
    path = run / FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA or content["weights_sha256"] != _sha256(model):
            return None
        targets = content["targets"]
        for entry in targets.values():
            for method in entry["methods"].values():
                method["summary"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        message = f"{path} is damaged ({type(error).__name__}): measure again with molattn faithfulness {run}"
        warnings.warn(MolattnWarning(message), stacklevel=4)
        return None
    return targets


def _sha256(model: Path) -> str:
    return file_sha256(model / WEIGHTS)
