"""`faithfulness.json` in a run folder: what was measured of a model's attributions, and the sentence for each."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molattn.data.files import write_text
from molattn.errors import MolattnWarning
from molattn.models.artifact import WEIGHTS

if TYPE_CHECKING:
    from molattn.explain.faithfulness import Faithfulness, Measured

FILE = "faithfulness.json"
SCHEMA = 1

Sentences = Mapping[str, Mapping[str, str]]
"""By target and then by method."""


def write_measured(run: Path, model: Path, found: "Faithfulness", data: str, side: str, truth: str) -> dict[str, Any]:
    """Add what was found of one target to the file, whole or not at all, and return that part.

    Args:
        run: the folder that gets the file.
        model: the folder of the model; the file is of no use to another one.
        found: what was measured.
        data: where the molecules are from.
        side: of its split; empty for all.
        truth: the property whose true terms were compared with; empty for none.
    """
    part = {
        "data": data,
        "side": side,
        "molecules": found.molecules,
        "molecules_with_truth": found.with_truth,
        "truth": truth,
        "unit": found.unit,
        "methods": {
            name: {**asdict(m), "sentence": sentence(m, found, data, side)} for name, m in found.methods.items()
        },
        "untrained": {name: asdict(m) for name, m in found.untrained.items()},
    }
    old = _read(run, model) or {}
    content = {
        "schema": SCHEMA,
        "molattn": version("molattn"),
        "model_sha256": _sha256(model),
        "targets": {**old, found.target: part},
    }
    write_text(run / FILE, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return part


def read_sentences(run: Path, model: Path) -> Sentences:
    """What was measured of the model in `model`, in words; nothing where the file is missing or of another model."""
    return {
        target: {name: str(m["sentence"]) for name, m in part["methods"].items()}
        for target, part in (_read(run, model) or {}).items()
    }


def sentence(m: "Measured", found: "Faithfulness", data: str, side: str) -> str:
    """What was measured of one method, in a line."""
    chance = found.methods["random"]
    where = " ".join(filter(None, [str(found.molecules), side, f"molecules of {data}"]))
    if m.kendall is not None and chance.kendall is not None:
        return (
            f"Kendall tau {m.kendall:.2f} with the true terms of {found.target} "
            f"(random order {chance.kendall:.2f}; 1 is perfect), {where}"
        )
    if m.deletion is not None:
        change = f"changes {found.target} {m.deletion:.2f} times as much as random ones"
        return f"removing its top atoms {change}, {where}"
    return f"nothing to tell apart in {where}"


def _read(run: Path, model: Path) -> dict[str, Any] | None:
    path = run / FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA or content["model_sha256"] != _sha256(model):
            return None
        targets = content["targets"]
        for part in targets.values():
            for method in part["methods"].values():
                method["sentence"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        message = f"{path} is damaged ({type(error).__name__}): measure again with molattn faithfulness {run}"
        warnings.warn(MolattnWarning(message), stacklevel=4)
        return None
    return targets


def _sha256(model: Path) -> str:
    return hashlib.sha256((model / WEIGHTS).read_bytes()).hexdigest()
