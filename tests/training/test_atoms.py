"""Atom-level targets in training: which labels count, their weights, and which rows are rejected."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from molattn.chem import ReadOptions, molecule_graph, random_smiles, read_smiles
from molattn.data import Table, offsets_from_counts, read_records
from molattn.errors import InputError, MolattnError, UsageError
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.losses import losses_of
from molattn.models.predict import compute_outputs
from molattn.models.scaler import TargetScaler
from molattn.models.smiles_model import SmilesModel
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.config import DataConfig, TrainingConfig
from molattn.training.dataset import LabelledMolecules, PreparedDataset, collate_rows, collate_step
from molattn.training.encoded_table import EncodedTable
from molattn.training.fit import fit
from molattn.training.labels import match_labels, molecule_means
from molattn.training.learner import Learner
from molattn.training.prepare import prepare
from molattn.training.targets import encode_targets, has_atom_targets
from molattn.training.task_inference import resolve_task
from tests.molecules import esol

SMILES, _ = esol(24)
GRAPHS = [molecule_graph(s) for s in SMILES]
COUNTS = np.array([g.num_atoms for g in GRAPHS], dtype=np.int64)
SMALL = GraphModelConfig(hidden_dim=16, num_layers=2, num_heads=4, edge_dim=4)
DRAW = np.random.default_rng(0)
VALUES = DRAW.normal(size=(COUNTS.sum(), 2))
SCALER = TargetScaler((0.0, 0.0), (1.0, 1.0))


def _first(n: int, targets: np.ndarray = VALUES, weights: np.ndarray | None = None) -> LabelledMolecules:
    return LabelledMolecules(GRAPHS[:n], targets[: COUNTS[:n].sum()], weights, offsets_from_counts(COUNTS[:n]))


def _gradients(
    model: GraphModel, data: LabelledMolecules, task: Task, rows: range | None = None
) -> dict[str, torch.Tensor]:
    model.zero_grad()
    step = collate_step(model, data, rows or range(len(data)))
    Learner(model, data, SCALER, TrainingConfig(), task).compute_loss(step).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


TASKS = [
    *(Regression(loss, atom_level=True) for loss in losses_of("regression")),
    Binary(atom_level=True),
    Multiclass(classes=(("a", "b"), ("a", "b", "c")), atom_level=True),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.loss)
def test_atoms_without_a_label_have_exactly_zero_gradient(task: Task) -> None:
    targets = (VALUES > 0).astype(float)
    targets[:, 1] = np.nan
    targets[DRAW.random(len(targets)) < 0.4, 0] = np.nan
    targets[: COUNTS[0]] = np.nan  # a molecule without any
    data, owners = _first(6, targets), np.array(task.target_of_output(2))
    torch.manual_seed(0)
    model = GraphModel(SMALL, len(owners), atom_level=True).eval()
    step = collate_step(model, data, range(6))
    outputs = model(step[0]).detach().requires_grad_()
    training = Learner(model, data, SCALER, TrainingConfig(), task)
    training.model = _Constant(outputs)
    training.compute_loss(step).backward()
    assert outputs.grad is not None
    known = np.isfinite(data.targets)[:, owners]
    assert outputs.grad.numpy()[~known].tolist() == [0.0] * int((~known).sum())
    assert (outputs.grad.numpy()[known] != 0).all()
    assert not _gradients(model, data, task)["head.weight"][owners == 1].any()


class _Constant(torch.nn.Module):
    """A model with fixed outputs."""

    def __init__(self, outputs: torch.Tensor):
        super().__init__()
        self.outputs = outputs

    def forward(self, _: object) -> torch.Tensor:
        return self.outputs


def test_the_loss_is_the_mean_over_labelled_atoms_of_all_molecules() -> None:
    targets = VALUES.copy()
    targets[DRAW.random(targets.shape) < 0.5] = np.nan
    data = _first(8, targets)
    model = GraphModel(SMALL, 2, atom_level=True).eval()
    outputs = compute_outputs(model, data.molecules)
    training = Learner(model, data, SCALER, TrainingConfig(), Regression(atom_level=True))
    loss = training.compute_loss(collate_step(model, data, range(8)))
    assert loss.item() == pytest.approx(np.nanmean((outputs - data.targets) ** 2), rel=1e-6)


def test_labels_of_a_batch_are_in_the_order_of_its_molecules() -> None:
    model, data = GraphModel(SMALL, 2, atom_level=True), _first(8)
    parts = np.split(data.targets, np.cumsum(COUNTS[:8])[:-1])
    batch = collate_rows(model, data, [5, 2, 7])
    assert batch.targets is not None
    np.testing.assert_array_equal(batch.targets.numpy(), np.concatenate([parts[5], parts[2], parts[7]]))


def test_a_molecule_of_weight_two_counts_as_if_it_were_there_twice() -> None:
    twice = [0, 0, 1, 2, 2, 3]
    parts = np.split(VALUES, np.cumsum(COUNTS)[:-1])
    one = LabelledMolecules(
        [GRAPHS[i] for i in twice], np.concatenate([parts[i] for i in twice]), None, offsets_from_counts(COUNTS[twice])
    )
    two = _first(4, weights=np.array([2.0, 1.0, 2.0, 1.0]))
    torch.manual_seed(0)
    model = GraphModel(SMALL, 2, atom_level=True).eval()
    a, b = (_gradients(model, data, Regression(atom_level=True)) for data in (one, two))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-6)


def test_a_value_per_element_is_learned() -> None:
    values = {"C": 1.0, "O": -2.0, "N": 3.0}
    targets = np.array([[values.get(s, 0.0), np.nan] for g in GRAPHS for s in g.symbols])
    data, val = (
        _first(20, targets),
        LabelledMolecules(GRAPHS[20:], targets[COUNTS[:20].sum() :], None, offsets_from_counts(COUNTS[20:])),
    )
    torch.manual_seed(0)
    model = GraphModel(SMALL, 2, atom_level=True)
    config = TrainingConfig(epochs=25, batch_size=4, learning_rate=5e-3, ema=0.5, accelerator="cpu")
    fitted = fit(model, data, val, TargetScaler((0.0, 0.0), (1.0, 1.0)), config, task=Regression(atom_level=True))
    baseline = np.nanstd(val.targets[:, 0])
    assert fitted.history[fitted.best_epoch - 1].val_metric < 0.3 * baseline


def _matched(rows: list[list[str]], names: list[str]):
    table = Table(("smiles", *names), rows, "t.csv", list(range(2, 2 + len(rows))))
    records = read_records(table, "smiles", names, atom_level=True)
    made = GraphModel.read(records.smiles, ReadOptions(max_atoms=100))
    sizes = [getattr(outcome, "size", 0) for outcome in made]
    return match_labels(records, sizes, lambda i: made[i].reason, table, EncodedTable(table), names)  # pyright: ignore


def test_rows_with_lists_of_the_wrong_length_are_rejected_and_the_others_keep_their_labels() -> None:
    rows = [
        ["CCO", "[1, 2, 3]", ""],
        ["CC(=O)O", "[1, 2, 3]", "[1, 2, 3, 4]"],
        ["C1CC", "[1, 2, 3]", ""],
        ["[H]C([H])([H])O", "[1, 2]", "[5, null]"],
        ["C[2H]", "[1, 2]", ""],
        ["CO", "[1, 2, 3, 4, 5, 6]", ""],
        ["C", "7", "8"],
    ]
    matched = _matched(rows, ["q", "r"])
    assert matched.indices.tolist() == [0, 3, 4, 6]
    assert matched.offsets is not None
    assert matched.offsets.tolist() == [0, 3, 5, 7, 8]
    nan = np.nan
    np.testing.assert_equal(
        matched.targets, [[1, nan], [2, nan], [3, nan], [1, 5], [2, nan], [1, nan], [2, nan], [7, 8]]
    )
    reasons = {r.row: (r.line, r.reason) for r in matched.rejected}
    assert reasons[1] == (3, "column 'q': 3 values for the 4 atoms of 'CC(=O)O'")
    assert reasons[2][1].startswith("RDKit cannot read it")
    line, reason = reasons[5]
    assert line == 7
    assert reason.startswith("column 'q': 6 values for the 2 atoms of 'CO': hydrogens are not atoms of the graph")
    assert reason.endswith("--add-hs, which puts them after the others, 6 atoms in all")


def test_the_mean_of_a_molecule_does_not_depend_on_the_order_of_its_atoms() -> None:
    targets = VALUES.copy()
    targets[DRAW.random(targets.shape) < 0.3] = np.nan
    targets[: COUNTS[0], 0] = np.nan
    means = molecule_means(targets, offsets_from_counts(COUNTS))
    parts = [p[DRAW.permutation(len(p))] for p in np.split(targets, np.cumsum(COUNTS)[:-1])]
    np.testing.assert_array_equal(means, molecule_means(np.concatenate(parts), offsets_from_counts(COUNTS)))
    assert np.isnan(means[0, 0])
    assert means[3, 1] == pytest.approx(np.nanmean(parts[3][:, 1]))


def _table(tmp_path: Path, more: Sequence[str] = ()) -> Path:
    lists = [", ".join(f"{x:.3f}" for x in part[:, 0]) for part in np.split(VALUES, np.cumsum(COUNTS)[:-1])]
    rows = [f'{s},"[{numbers}]"' for s, numbers in zip(SMILES, lists, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,q", *rows, *more]) + "\n")
    return tmp_path / "t.csv"


def _prepared(path: Path, **settings: object) -> PreparedDataset:
    return prepare(DataConfig(dataset=str(path), **settings), GraphModel, seed=0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("method", ["random", "stratified"])
def test_every_split_has_the_labels_of_its_atoms_and_the_scaler_is_fitted_to_training(
    tmp_path: Path, method: str
) -> None:
    dataset = _prepared(_table(tmp_path), split=method)
    assert dataset.task == Regression(atom_level=True)
    assert dataset.task_message == "task: atom-regression, q holds lists of numbers; --task-type overrides it"
    assert dataset.config.task_type == "atom-regression"
    seen = 0
    for split in ("train", "val", "test"):
        subset = dataset.subset(split)
        assert subset.offsets is not None
        assert np.diff(subset.offsets).tolist() == [m.size for m in subset.molecules]
        parts = np.split(VALUES[:, 0], np.cumsum(COUNTS)[:-1])
        expected = np.concatenate([parts[i] for i in dataset.indices(split)])
        np.testing.assert_allclose(subset.targets[:, 0], expected, atol=1e-3)
        seen += len(expected)
        if split == "train":
            scaler = dataset.task.fit_scaler(subset.targets)
            assert scaler.mean[0] == pytest.approx(subset.targets.mean())
            assert scaler.std[0] == pytest.approx(subset.targets.std())
    assert seen == COUNTS.sum()


def test_smiles_of_one_molecule_are_in_one_split_each_with_its_own_list(tmp_path: Path) -> None:
    smiles = "CC(=O)Nc1ccc(O)cc1"
    spellings = [random_smiles(read_smiles(smiles), seed) for seed in range(6)]
    rows = [f'{s},"{[round(0.1 * i, 1) for i in range(11)]}"' for s in spellings]
    dataset = _prepared(_table(tmp_path, rows))
    index = {int(row): i for i, row in enumerate(dataset.rows)}
    assert len({str(dataset.split_labels[24 + k]) for k in range(6)}) == 1
    for k in range(6):
        own = dataset.targets[dataset.target_rows(np.array([index[24 + k]]))][:, 0]
        assert own.tolist() == [round(0.1 * i, 1) for i in range(11)]


def test_settings_that_targets_of_atoms_do_not_support_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    with pytest.raises(UsageError, match="--standardize changes the order of atoms"):
        _prepared(table, standardize="parent")
    with pytest.raises(UsageError, match="use --model graph"):
        prepare(DataConfig(dataset=str(table)), SmilesModel, seed=0)
    with pytest.raises(UsageError, match="--task-type atom-binary learns that"):
        _prepared(table, task_type="binary")
    with pytest.raises(UsageError, match="has no atom-level targets"):
        prepare(DataConfig(dataset="esol", task_type="atom-regression"), GraphModel, seed=0)
    with pytest.raises(InputError, match="a binary target is 0 or 1: .*--task-type atom-regression"):
        _prepared(table, task_type="atom-binary")


def test_a_list_and_a_number_are_not_learned_together() -> None:
    table = Table(("smiles", "q", "y"), [["CC", "[1, 2]", "0.5"], ["CO", "[1, 2]", "0.7"]], "t.csv", [2, 3])
    assert has_atom_targets(table, ["q"], "")
    assert not has_atom_targets(table, ["y"], "")
    assert has_atom_targets(table, ["y"], "atom-regression")
    with pytest.raises(UsageError, match="column 'q' holds a list .* and column 'y' one value"):
        has_atom_targets(table, ["q", "y"], "")


def test_class_names_of_atoms_are_encoded_in_their_lists() -> None:
    rows = [["CC", '["sp3", "sp3"]'], ["C=C", '["sp2", null]'], ["C", '["sp7"]'], ["N", ""], ["O", '["sp3"]']]
    table = Table(("smiles", "h"), rows, "t.csv", [2, 3, 4, 5, 6])
    encoded = encode_targets(table, ["h"], "atom-multiclass", (("sp2", "sp3"),), atom_level=True)
    assert [row[1] for row in encoded.table.rows] == ["[1, 1]", "[0, null]", "", "", "[1]"]
    assert encoded.reasons == {2: "column 'h', atom 0 (from 0): 'sp7' is none of the classes sp2, sp3"}
    assert encode_targets(table, ["h"], "atom-multiclass", atom_level=True).classes == (("sp2", "sp3", "sp7"),)


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ([0.5, 1.5, 2.0], "atom-regression", "q holds lists of numbers"),
        ([0.0, 1.0, 1.0], "atom-binary", "q holds lists of only 0 and 1"),
        (
            [1.0, 2.0] * 10,
            "atom-regression",
            "lists of the numbers 1, 2; if they are classes, add --task-type atom-m",
        ),
    ],
)
def test_the_task_of_lists_is_inferred_and_reported(values: list[float], name: str, message: str) -> None:
    task, task_message = resolve_task("", "", np.array(values)[:, None], ["q"], (), atom_level=True)
    assert task.name == name
    assert message in task_message


def test_a_loss_of_another_task_names_the_task_type_of_atoms() -> None:
    with pytest.raises(MolattnError, match="add --task-type atom-binary"):
        resolve_task("", "bce", np.array([[0.5], [1.5]]), ["q"], (), atom_level=True)
