"""Untrusted model folders: those of the release with changed keys and tensors, and matching checksums.

    python -m tests.reliability.folders SEED COUNT

writes COUNT folders, loads each and predicts two molecules, and prints as JSON how many raised an error of one
sentence, how many predicted, what was wrong, the seconds of the slowest, and the largest memory in MiB.
"""

import copy
import hashlib
import json
import math
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

import molattn
from molattn import Predictor
from molattn.data.schema import dumps_checksummed
from molattn.errors import MolattnError
from molattn.inference import PredictionOptions
from tests.models.forms import model_folders
from tests.models.tensors import saved

SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "C1CC1N")
NUMBERS = (0, -1, 1, 2, 3, 7, 1e-300, 1e308, -1e308, 10**9, 2**31, 2**63, 10**400, 0.5, 1.5, -0.0, math.nan, math.inf)
TEXTS = ("", "x", "\ud800", "\x00", "\x1b[31m", "a\nb", "é" * 10, "x" * 200_000, "__class__", "../../x", "nan")
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"x": 1}, [1] * 100_000, ["bond"] * 100_000, "deep")
DTYPES = (
    *(torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool),
    *(torch.complex64, torch.float8_e4m3fn),
)
_WORDS = (
    *("mean", "sum", "max", "attention", "additive", "global", "virtual-node", "all", "bonded", "concat", "graph"),
    *("smiles-transformer", "molattn", "mat", "rmat", "graphormer", "grit", "gaan", "tensor-dot", "regression"),
    *("binary", "multiclass", "mse", "mve", "evidential", "quantile", "bce", "cross-entropy", "dirichlet", "ensemble"),
    *("dropout", "none", "zscaling", "isotonic", "conformal-regression", "parent", "tautomer", "paths", "stop"),
)

Tensors = dict[str, torch.Tensor]
Content = tuple[dict[str, Any], Tensors]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container within a value, with each of its keys; of a long list the first few."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(3, len(value))):
            yield value, key
            yield from places(value[key])


def change_config(config: dict[str, Any], rng: Random) -> None:
    """Change one value, but not in the vocabulary or the checksums."""
    found = list(places({key: value for key, value in config.items() if key not in ("vocabulary", "sha256")}))
    whole, key = rng.choice(found)
    if not any(whole is value for value, _ in places(config)) and whole is not config:
        whole = config
    value = whole[key]
    kind = rng.randrange(9)
    if kind == 0 and isinstance(whole, dict):
        del whole[key]
    elif kind == 1 and isinstance(value, dict):
        value[rng.choice(("evil", "", "__init__", "\ud800", "x" * 100_000))] = rng.choice(NUMBERS)
    elif kind == 2 and isinstance(value, list) and value:
        # Nested lists are repeated less often: the text would have gigabytes.
        flat = len(value) < 100 and not any(isinstance(x, list | dict) for x in value)
        whole[key] = value * rng.choice((2, 3, 50_000 if flat else 4))
    elif kind in (3, 4) and isinstance(value, int | float) and not isinstance(value, bool):
        whole[key] = rng.choice((value + 1, value - 1, -value, value * 2, value / 2, float(value), value * 1e5))
    elif kind in (5, 6):
        whole[key] = rng.choice(NUMBERS)
    elif kind == 7:
        whole[key] = rng.choice((*TEXTS, *_WORDS))
    else:
        whole[key] = copy.deepcopy(rng.choice(OTHERS))
        if whole[key] == "deep":
            for _ in range(500):
                whole[key] = [whole[key]]


def change_tensors(tensors: Tensors, rng: Random) -> None:
    """Change one tensor."""
    name = rng.choice(sorted(tensors))
    x = tensors[name]
    kind = rng.randrange(10)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[rng.choice(("evil", "members.1.x", "calibration.0.z", "domain.bits", "x" * 1000))] = tensors.pop(name)
    elif kind == 2:
        tensors[name] = x.to(rng.choice(DTYPES))
    elif kind == 3:
        tensors[name] = x.reshape(-1)[: rng.randrange(x.numel() + 1)].contiguous()
    elif kind == 4:
        tensors[name] = x.reshape(1, *x.shape).contiguous()
    elif kind == 5:
        tensors[name] = x.flip(0).contiguous() if x.ndim else x
    elif kind == 6:
        tensors["another" if rng.random() < 0.5 else f"members.{rng.randrange(3)}.{name}"] = x.clone()
    elif x.is_floating_point():
        y = x.clone().reshape(-1)
        hostile = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e30, 1e-40, 0.0)
        y[rng.randrange(max(1, len(y))) : len(y) if rng.random() < 0.5 else None] = rng.choice(hostile)
        tensors[name] = y.reshape(x.shape)


def write(folder: Path, config: dict[str, Any], tensors: Tensors) -> None:
    """The model on disk, with matching checksums."""
    weights = saved(tensors)
    if isinstance(config.get("sha256"), dict):
        config["sha256"] = {"model.safetensors": hashlib.sha256(weights).hexdigest()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_bytes(dumps_checksummed(config, "config.json"))


def all_predictions(predictor: Predictor) -> list[Any]:
    """All kinds of predictions of a model for the molecules; unsupported kinds raise an error of one sentence."""
    provided = [[0.5] * len(predictor.descriptors)] * len(SMILES) if predictor.descriptors else None
    found = []
    for how in (
        PredictionOptions(),
        PredictionOptions(uncertainty_method="dropout"),
        PredictionOptions(level=0.5),
        PredictionOptions(applicability=True),
    ):
        try:
            rows = list(predictor.predict_rows(SMILES, descriptors=provided, options=how))
        except MolattnError as error:
            if how == PredictionOptions() or "\n" in str(error):
                raise
        else:
            found.append(rows)
    return found


def numbers(value: Any) -> list[float]:
    """The numbers in nested values."""
    if isinstance(value, tuple | list):
        return [x for item in value for x in numbers(item)]
    return [value] if isinstance(value, int | float) else []


def wrong(predictor: Predictor, as_before: list[Any] | None) -> str:
    """What is wrong with the predictions of a loaded model; `as_before` are the expected ones, if known."""
    for rows in all_predictions(predictor):
        if len(rows) != len(SMILES):
            return "a row is lost"
        for row in rows:
            if bool(row.error) == (row.values is not None):
                return f"a row has both or neither of values and an error: {row}"
            if not all(map(math.isfinite, numbers(row.values) + numbers(row.extra_values))):
                return f"a row holds what is not finite: {row}"
    if as_before is not None:
        now = [numbers(row.values) for row in all_predictions(predictor)[0]]
        if not all(np.allclose(a, b, rtol=1e-6, atol=1e-6) for a, b in zip(now, as_before, strict=True)):
            return f"other answers: {now}, {as_before}"
    return ""


def matters(content: Content) -> bytes:
    """A digest of everything that the predictions of a model depend on."""
    config, tensors = content
    parts = [config.get(key) for key in ("schema", "model", "task", "molecules", "descriptors", "members")]
    targets = config.get("targets")
    if isinstance(targets, list):
        parts += [[t.get("mean"), t.get("std")] if isinstance(t, dict) else t for t in targets[:100]]
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass"))
    for name in sorted(n for n in tensors if not n.startswith(("calibration.", "domain."))):
        x = tensors[name]
        digest.update(f"{name} {x.dtype} {tuple(x.shape)}".encode() + x.view(torch.uint8).numpy().tobytes())
    return digest.digest()


def hostile(seed: int, folder: Path) -> Callable[[], list[Any] | None]:
    """Write model number `seed`; returns a function for its expected predictions, None if they are unknown."""
    rng = Random(seed)
    kept = rng.choice(list(model_folders().values()))
    config, tensors = json.loads((kept / "config.json").read_text()), load_file(kept / "model.safetensors")
    before = matters((config, tensors))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if rng.random() < 0.65:
            change_config(config, rng)
        elif tensors:
            change_tensors(tensors, rng)
    try:
        after = matters((config, tensors))
    except RuntimeError:  # a tensor without numbers
        after = b""
    try:
        write(folder, config, tensors)
    except UnicodeEncodeError:  # nothing that JSON could hold
        return lambda: None

    def known() -> list[Any] | None:
        if after != before:
            return None
        return [numbers(row.values) for row in all_predictions(molattn.load(kept))[0]]

    return known


def main() -> None:
    """See above."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    first, count = int(sys.argv[1]), int(sys.argv[2])
    tried, faults, slowest, digests = Counter[str](), [], 0.0, set[str]()
    for kept in model_folders().values():  # imports at the first use are not measured
        all_predictions(molattn.load(kept))
    home = Path(tempfile.mkdtemp(prefix="molattn-folders-"))
    try:
        for seed in range(first, first + count):
            known = hostile(seed, home / "model")()
            files = sorted(path for path in (home / "model").rglob("*") if path.is_file())
            digests.add(hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest())
            start = time.process_time()
            try:
                tried["folders"] += 1
                what = wrong(molattn.load(home / "model"), known)
                tried["answered"] += 1
                tried["answered as before"] += known is not None
            except MolattnError as error:
                tried["refused"] += 1
                what = ""
                if "\n" in str(error) or len(str(error)) > 600 or not str(error).isascii():
                    what = f"not a sentence: {str(error)[:100]!r}"
            except Exception:
                what = traceback.format_exc(limit=-3)
            took = time.process_time() - start
            slowest = max(slowest, took)
            if what or took > 5:
                faults.append(f"folder {seed}, {took:.1f} s: {what}")
    finally:
        shutil.rmtree(home)
    # Not ru_maxrss, into which the process that started this one counts.
    status = Path("/proc/self/status").read_text()
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) / 1024
    print(json.dumps({"tried": tried, "faults": faults, "slowest": slowest, "peak": peak, "digests": sorted(digests)}))


if __name__ == "__main__":
    main()
