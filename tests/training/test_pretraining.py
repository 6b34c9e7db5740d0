"""Pretraining: its molecules, without those for evaluation, its files, and resumption."""

import hashlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import molattn
from molattn.chem import DESCRIPTORS, descriptors, grow_molecules, inchi_key, inchikey_skeletons
from molattn.data.datasets.excluded_molecules import evaluation_molecules, molecule_hash
from molattn.errors import InputError, UsageError
from molattn.models.config import GraphModelConfig
from molattn.training.bases import find_base
from molattn.training.config import TrainingConfig
from molattn.training.pretrain_config import PretrainConfig
from molattn.training.pretraining import pretrain
from molattn.training.run_config import RunConfig
from molattn.training.unlabelled import collect_molecules
from tests.molecules import esol

EVALUATED, _ = esol(20)
SEEN = grow_molecules(
    [s for s in esol(60)[0] if "." not in s], 50, seed=5, is_excluded=lambda s: s in evaluation_molecules()
)
SMALL = RunConfig(
    model=GraphModelConfig(hidden_dim=16, num_layers=1, num_heads=4, edge_dim=4),
    training=TrainingConfig(epochs=3, batch_size=16, accelerator="cpu", base="none"),
)


class RecordingReporter:
    """A reporter that records its calls, and may interrupt the training."""

    def __init__(self, stop_after: int = 10**9):
        self.stages: list[str] = []
        self.warnings: list[str] = []
        self.epochs = 0
        self.stop_after = stop_after

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def molecules(self, done: int, total: int) -> None:
        assert 0 < done <= total

    def epoch(self, record: object, epochs: int) -> None:  # noqa: ARG002
        if self.epochs == self.stop_after:
            raise KeyboardInterrupt
        self.epochs += 1


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Molecules to pretrain on; among them evaluation molecules, a duplicate, and an invalid SMILES."""
    path = tmp_path_factory.mktemp("molecules") / "mine.smi"
    path.write_text("\n".join([*SEEN[:30], *EVALUATED, "C1CC bad", SEEN[3], *SEEN[30:]]) + "\n")
    return path


@pytest.fixture(scope="module")
def config(table: Path) -> PretrainConfig:
    return PretrainConfig(molecules=str(table), run=SMALL)


@pytest.fixture(scope="module")
def base(config: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases") / "first"
    pretrain(config, folder, RecordingReporter())
    return folder


def test_no_evaluation_molecule_is_used_whether_provided_or_grown(table: Path) -> None:
    found = collect_molecules(str(table), num_generated=40, seed=0)
    assert found.smiles[:50] == tuple(SEEN)
    assert found.num_generated == len(found.smiles) - 50 == 40
    for smiles in found.smiles:
        assert evaluation_molecules().hashes.isdisjoint(map(molecule_hash, inchikey_skeletons(smiles))), smiles
    assert len({inchi_key(s) for s in found.smiles}) == len(found.smiles)
    reasons = [r.reason for r in found.rejected]
    assert [r.row for r in found.rejected] == [*range(30, 52)]
    assert [r.line for r in found.rejected] == [*range(31, 53)]
    assert reasons[:20] == ["a molecule that models are evaluated on"] * 20
    assert "spelling" in reasons[20]
    assert reasons[21] == "it is a duplicate of a molecule above"
    assert sum(found.rejection_counts.values()) == 22


def test_further_molecules_can_be_excluded(table: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("SMILES\n" + "\n".join(SEEN[::2]) + "\n")
    found = collect_molecules(str(table), exclude=[str(tmp_path / "mine.csv")])
    assert not {inchikey_skeletons(s) for s in SEEN[::2]} & {inchikey_skeletons(s) for s in found.smiles}
    assert found.rejection_counts["it is one of the molecules to exclude"] >= 25


def test_rows_of_a_large_table_are_sampled_at_random_in_their_order(table: Path) -> None:
    whole = collect_molecules(str(table)).smiles
    samples = [collect_molecules(str(table), max_molecules=30, seed=seed) for seed in (0, 0, 1)]
    first, again, other = (sample.smiles for sample in samples)
    assert first == again != other
    assert set(first) < set(whole)
    assert [s for s in whole if s in first] == list(first)
    for sample in samples:
        # Rows that are not sampled are not counted as rejected.
        assert len(sample.smiles) + len(sample.rejected) == 30
    assert collect_molecules(str(table), max_molecules=1_000).smiles == whole


def test_a_table_of_evaluation_molecules_only_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.smi").write_text("\n".join(EVALUATED) + "\n")
    with pytest.raises(InputError, match="leaves no molecule to learn from; the first, .*evaluated on"):
        collect_molecules(str(tmp_path / "t.smi"))
    with pytest.raises(UsageError, match=r"there is no file 'nowhere\.smi'"):
        collect_molecules("nowhere.smi")


def test_a_base_is_a_model_of_the_descriptors_with_a_card(base: Path, table: Path) -> None:
    assert {p.name for p in base.iterdir()} == {
        "card.toml",
        "config.json",
        "history.csv",
        "rejected.csv",
        "model.safetensors",
    }
    card = tomllib.loads((base / "card.toml").read_text())
    assert card["sha256"] == hashlib.sha256((base / "model.safetensors").read_bytes()).hexdigest()
    assert card["molecules"]["count"] == 50
    assert card["molecules"]["source"] == "mine.smi"
    assert card["command"].startswith(f"molattn pretrain {table} --set ")
    assert "model.hidden_dim=16" in card["command"]
    names = card["targets"]["descriptors"]
    assert set(names) | set(card["targets"]["dropped"]) == set(DESCRIPTORS)
    predictor = molattn.load(base)
    assert list(predictor.targets) == names
    assert np.asarray(predictor.predict(SEEN[:4])).shape == (4, len(names))
    assert len((base / "rejected.csv").read_text().splitlines()) == 23
    found = find_base(str(base))
    assert found.model == SMALL.model
    assert not found.add_hs


def test_it_learns_the_descriptors(config: PretrainConfig, tmp_path: Path) -> None:
    longer = replace(SMALL, training=replace(SMALL.training, epochs=40, learning_rate=1e-2))
    result = pretrain(replace(config, run=longer, masked_atoms=0.0), tmp_path / "base", RecordingReporter())
    losses = [r.train_loss for r in result.history]
    assert losses[-1] < 0.6 * losses[0]
    predictor = molattn.load(tmp_path / "base")
    predicted = np.asarray(predictor.predict(SEEN))
    true = np.array([descriptors(s, predictor.targets) for s in SEEN])
    alike = [np.corrcoef(x, y)[0, 1] for x, y in zip(predicted.T, true.T, strict=True) if np.isfinite(y).all()]
    # Three validation molecules choose the epoch; an untrained model has a correlation near 0.
    assert np.median(alike) > 0.3


def test_a_seed_gives_the_same_base_and_an_interruption_changes_nothing(
    config: PretrainConfig, base: Path, tmp_path: Path
) -> None:
    pretrain(config, tmp_path / "again", RecordingReporter())
    whole = (base / "model.safetensors").read_bytes()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == whole
    before = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        pretrain(config, tmp_path / "stopped", RecordingReporter(stop_after=2))
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(UsageError, match="with --resume continues it, --force"):
        pretrain(config, tmp_path / "stopped", RecordingReporter())
    with pytest.raises(UsageError, match="masked_atoms was 0.15 and is 0.3 now"):
        pretrain(replace(config, masked_atoms=0.3), tmp_path / "stopped", RecordingReporter(), resume=True)
    reporter = RecordingReporter()
    pretrain(config, tmp_path / "stopped", reporter, resume=True)
    assert reporter.epochs == 1
    assert (tmp_path / "stopped" / "model.safetensors").read_bytes() == whole
    assert (tmp_path / "stopped" / "history.csv").read_bytes() == (base / "history.csv").read_bytes()
    assert not (tmp_path / "stopped" / "checkpoint").exists()
    with pytest.raises(UsageError, match="nothing to resume"):
        pretrain(config, tmp_path / "stopped", RecordingReporter(), resume=True)


def test_masked_atoms_add_no_weights_but_change_those_of_the_model(
    config: PretrainConfig, base: Path, tmp_path: Path
) -> None:
    pretrain(replace(config, masked_atoms=0.0), tmp_path / "plain", RecordingReporter())
    with_masks, plain = load_file(base / "model.safetensors"), load_file(tmp_path / "plain" / "model.safetensors")
    assert with_masks.keys() == plain.keys()
    assert any(not torch.equal(with_masks[name], plain[name]) for name in plain)


def test_a_folder_is_not_overwritten(config: PretrainConfig, base: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists: give another --output-dir, or --force"):
        pretrain(config, base, RecordingReporter())
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not a base model of molattn"):
        pretrain(config, tmp_path, RecordingReporter(), force=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"grow": -1}, "grow are 0 or more"),
        ({"max_molecules": -1}, "max_molecules and grow are 0 or more"),
        ({"masked_atoms": 1.0}, "masked_atoms is at least 0 and below 1"),
        ({"masked_weight": 0.0}, "masked_weight is above 0"),
        ({"run": SMALL.updated({"data": {"conformers": True}}, "t")}, "molecules as they are"),
        ({"run": SMALL.updated({"training": {"auxiliary": 0.3}}, "t")}, "leave out auxiliary targets"),
        ({"run": SMALL.updated({"model": {"virtual_node": True}}, "t")}, "--masked-atoms 0"),
    ],
)
def test_invalid_settings_are_refused(
    config: PretrainConfig, tmp_path: Path, settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        pretrain(replace(config, **settings), tmp_path / "base", RecordingReporter())
    assert not (tmp_path / "base").exists()


def test_a_damaged_base_is_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no base model 'mine'"):
        find_base("mine")
    for name, text in (("card.toml", "= nothing"), ("config.json", json.dumps({"model": {"kind": "graph"}}))):
        folder = tmp_path / name
        folder.mkdir()
        for path in base.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / name).write_text(text)
        with pytest.raises(InputError, match="is damaged"):
            find_base(str(folder))
