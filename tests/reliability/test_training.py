"""Lines 13 to 20: training uses the available labels only, and is reproducible."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import molattn as library
from molattn.attention import MultiHeadAttention
from molattn.chem import molecule_graph, random_smiles, read_smiles
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.losses import losses_of
from molattn.models.presets import PRESETS
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.testing import CheckFailed, check_model
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.fit import fit
from molattn.training.objectives import TaskLoss
from tests.cli.conftest import QUICK, Molattn
from tests.models.test_presets import small
from tests.molecules import esol
from tests.reliability.score import Score

SMILES, VALUES = esol(60)
TASKS: list[Task] = [
    *map(Regression, losses_of("regression")),
    Binary(),
    Multiclass(classes=(("a", "b"), ("a", "b", "c"))),
]


def _table(path: Path, columns: dict[str, list[object]]) -> Path:
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def test_13_targets_with_nothing_to_learn(score: Score, molattn: Molattn, tmp_path: Path) -> None:
    targets: dict[str, tuple[list[object], int]] = {
        "constant": ([1.5] * 60, 0),
        "one": ([1.0] + [""] * 59, 3),
        "none": ([""] * 60, 3),
        "nan": (["nan"] * 60, 3),
        "inf": (["inf"] * 60, 3),
        "extreme": ([1e300 if i % 2 else -1e300 for i in range(60)], 0),
    }
    for name, (values, code) in targets.items():
        table = _table(tmp_path / f"{name}.csv", {"smiles": [*SMILES], "y": values})
        score.count("targets")
        answer = molattn("train", table, *QUICK, "--task-type", "regression", "-o", tmp_path / name, "-q")
        score.check(answer.code == code, f"{name}: code {answer.code}, {answer.err}")
        if (tmp_path / name / "model").exists():
            weights = library.load(tmp_path / name).model.state_dict().values()
            score.check(all(bool(x.isfinite().all()) for x in weights), f"{name}: a model with NaN was saved")
            text = (tmp_path / name / "metrics.json").read_text()
            score.check("NaN" not in text and "Infinity" not in text, f"{name}: {text}")
        else:
            score.check(
                code != 0 and "error: " in answer.err and not (tmp_path / name).exists(), f"{name}: {answer.err}"
            )


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.loss)
def test_14_masked_labels_have_no_gradient(score: Score, task: Task) -> None:
    rng, owners = np.random.default_rng(0), task.target_of_output(2)
    loss = TaskLoss(task, TargetScaler((0.0, 0.0), (1.0, 1.0)))
    for _ in range(score.times(5, 200)):
        targets = torch.from_numpy(rng.integers(0, 2, (16, 2)).astype(np.float32))
        targets[torch.from_numpy(rng.random((16, 2)) < 0.5)] = torch.nan
        outputs = torch.from_numpy(rng.normal(size=(16, len(owners)))).float().requires_grad_()
        losses, known = loss(outputs, targets)
        losses[known].sum().backward()
        assert outputs.grad is not None
        masked = targets.isnan()[:, list(owners)]
        score.count("masked labels", int(masked.sum()))
        score.check(not outputs.grad[masked].any(), f"{task.loss}: a masked label has a gradient")
        score.check(bool(outputs.grad[~masked].isfinite().all()), f"{task.loss}: a gradient is not finite")


def test_15_a_split_with_one_class(score: Score, molattn: Molattn, tmp_path: Path) -> None:
    sides = ["train"] * 40 + ["val"] * 10 + ["test"] * 10
    for side in ("val", "test", "train"):
        labels: list[object] = [1 if s == side else i % 2 for i, s in enumerate(sides)]
        table = _table(tmp_path / f"{side}.csv", {"smiles": [*SMILES], "y": labels, "set": [*sides]})
        score.count("splits")
        options = ("--split-column", "set", "--target-columns", "y", "-o", tmp_path / side, "-q")
        answer = molattn("train", table, *QUICK, *options)
        if not score.check(answer.code == 0, f"{side}: {answer.err}"):
            continue
        found = json.loads((tmp_path / side / "metrics.json").read_text())[side]["y"]
        score.check(found["auroc"] is None and found["why"]["auroc"] == "one class only", f"{side}: {found}")


def test_16_duplicates_across_subsets(score: Score, molattn: Molattn, tmp_path: Path) -> None:
    # Each molecule twice, in two SMILES; a split by row would put them in two subsets.
    twice = [s for k, text in enumerate(SMILES[:30]) for s in (text, random_smiles(read_smiles(text), k))]
    sides = ["train", "test", *["train", "train"] * 25, *["val", "val"] * 2, *["test", "test"] * 2]
    table = _table(tmp_path / "t.csv", {"smiles": [*twice], "y": [*range(60)], "set": sides})
    score.count("duplicates", 30)
    options = ("--target-columns", "y", "--task-type", "regression")
    given = molattn("train", table, *QUICK, "--split-column", "set", *options, "-o", tmp_path / "given")
    score.check("1 molecule is in more than one subset" in given.err + given.out, given.err)
    for split in ("random", "scaffold", "scaffold-balanced", "cluster")[: score.times(1, 4)]:
        answer = molattn("train", table, *QUICK, "--split", split, *options, "-o", tmp_path / split)
        if not score.check(answer.code == 0, f"{split}: {answer.err}"):
            continue
        lines = (tmp_path / split / "splits.csv").read_text().splitlines()[1:]
        labels = [line.split(",")[1] for line in lines]
        score.rows(labels[::2], labels[1::2], f"a molecule is in two subsets of {split}")
        score.check("more than one subset" not in answer.err, answer.err)


def _fitted(train: LabelledMolecules, val: LabelledMolecules, **settings: object) -> list[torch.Tensor]:
    config = TrainingConfig(**{"epochs": 2, "batch_size": 16, "accelerator": "cpu", **settings})  # pyright: ignore[reportArgumentType]
    torch.manual_seed(config.seed)
    model = GraphModel(GraphModelConfig(hidden_dim=16, num_layers=2, num_heads=4))
    fit(model, train, val, TargetScaler.fit(train.targets), config)
    return [x.clone() for x in model.state_dict().values()]


@pytest.fixture(scope="module")
def sides() -> tuple[LabelledMolecules, LabelledMolecules]:
    graphs, targets = [molecule_graph(s) for s in SMILES], np.array(VALUES)[:, None]
    return LabelledMolecules(graphs[:40], targets[:40]), LabelledMolecules(graphs[40:], targets[40:])


def test_17_the_scaler_is_fitted_to_the_training_subset(score: Score, molattn: Molattn, tmp_path: Path) -> None:
    split = ["train"] * 40 + ["val"] * 10 + ["test"] * 10
    for k in range(score.times(1, 5)):
        values: list[object] = [v if s == "train" else v + 100 * (k + 1) for v, s in zip(VALUES, split, strict=True)]
        table = _table(tmp_path / f"{k}.csv", {"smiles": [*SMILES], "y": values, "set": [*split]})
        options = ("--split-column", "set", "--target-columns", "y", "-o", tmp_path / f"run-{k}", "-q")
        score.count("runs")
        if score.check((answer := molattn("train", table, *QUICK, *options)).code == 0, answer.err):
            (target,) = json.loads((tmp_path / f"run-{k}" / "model" / "config.json").read_text())["targets"]
            known = np.array(VALUES[:40])
            close = np.allclose([target["mean"], target["std"]], [known.mean(), known.std()], rtol=0.02)
            score.check(close, f"{target} beside {known.mean()}, {known.std()}")


def test_18_the_same_seed_gives_the_same_weights(
    score: Score, sides: tuple[LabelledMolecules, LabelledMolecules]
) -> None:
    for seed in range(score.times(1, 10)):
        a, b = _fitted(*sides, seed=seed), _fitted(*sides, seed=seed)
        score.count("seeds")
        score.check(all(map(torch.equal, a, b)), f"seed {seed}: other weights")
        one, two = (_fitted(*sides, seed=seed, epochs=1, batch_size=64, ema=0.0, threads=n) for n in (1, 2))
        apart = max(float((x.double() - y.double()).abs().max()) for x, y in zip(one, two, strict=True))
        score.check(apart <= 1e-6, f"seed {seed}: 1 and 2 threads are {apart:.1e} apart")
        score.slowest("1 and 2 threads apart", apart)


def test_19_attention_is_that_of_torch(score: Score) -> None:
    for seed in range(score.times(5, 200)):
        torch.manual_seed(seed)
        heads, b, n, m = 1 + seed % 4, 1 + seed % 3, 1 + seed % 7, 1 + seed % 5
        theirs = torch.nn.MultiheadAttention(4 * heads, heads, bias=bool(seed % 2), batch_first=True).double().eval()
        ours = MultiHeadAttention.from_torch(theirs)
        q, k = torch.randn(b, n, 4 * heads).double(), torch.randn(b, m, 4 * heads).double()
        found, wanted = ours(q, k, k), theirs(q, k, k, need_weights=False)[0]
        apart = float((found - wanted).detach().abs().max())
        score.count("layers")
        score.check(apart <= 1e-12, f"{apart:.1e} apart from torch, seed {seed}")
        score.slowest("apart from torch", apart)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_20_invariances_and_gradients_of_every_preset(score: Score, preset: str) -> None:
    torch.manual_seed(0)
    try:
        score.count("checks", len(check_model(small(preset))))
    except CheckFailed as error:
        score.check(False, f"{preset}: {error}")


def test_20_invariances_of_a_model_of_tokens(score: Score) -> None:
    torch.manual_seed(0)
    score.count("checks", len(check_model(build_model(SmilesModelConfig(hidden_dim=16, num_heads=2, num_layers=2), 1))))
