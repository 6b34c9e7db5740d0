"""The evaluation of a model on a table with labels."""

from pathlib import Path

import pytest
import torch

from molattn.errors import UsageError
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression
from molattn.training.evaluation import evaluate, seen_smiles
from tests.molecules import esol


def test_the_baseline_leaves_out_and_counts_the_labels_that_are_bounds(tmp_path: Path) -> None:
    smiles, values = esol(10)
    cells = [">3", "<=2", *map(str, values[2:])]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y", *map(",".join, zip(smiles, cells, strict=True))]) + "\n")
    torch.manual_seed(0)
    model = GraphModel(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1, edge_dim=4)).eval()
    artifact = Artifact(model, TargetScaler((1.0,), (2.0,)), ("y",), ("",), task=Regression("bounded-mse"))
    found = evaluate(artifact, tmp_path / "t.csv")
    assert found.metrics["y"]["censored"] == found.baseline["y"]["censored"] == 2
    assert found.metrics["y"]["n"] == found.baseline["y"]["n"] == 8


def test_a_split_file_without_a_column_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    assert seen_smiles(tmp_path) == []
    (tmp_path / "splits.csv").write_text("smiles,split\nC,train\nCC,test\nCCC,\nCCCC,val\n")
    assert seen_smiles(tmp_path) == ["C", "CCCC"]
    (tmp_path / "splits.csv").write_text("smiles,side\nC,train\n")
    with pytest.raises(UsageError, match=r"splits\.csv has no column 'split'; it has 'smiles', 'side'"):
        seen_smiles(tmp_path)
