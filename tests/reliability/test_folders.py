"""Lines 40 and 42: an untrusted model folder raises an error of one sentence, or predicts finite numbers."""

import json
import math
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import molattn as library
from molattn import Predictor
from molattn.chem import molecule_graph
from molattn.errors import InputError, MolattnWarning, SmilesError
from molattn.models.artifact_file import load_artifact, save_artifact
from tests.cli.conftest import Molattn
from tests.models.forms import model_folders
from tests.reliability.score import Score
from tests.training.runs import REPOSITORY

MESSAGE = "the model's output for it is not a finite number"


def _overflowing(kept: str, folder: Path, times: float = 1e38) -> Path:
    """A model with finite weights whose forward pass overflows at least once."""
    artifact = load_artifact(model_folders()[kept])
    for model in artifact.models:
        model.head.weight.mul_(times)
        model.head.bias.fill_(3e38)
        if kept == "tokens":
            model.head.bias.fill_(0.0)
    scaler = replace(artifact.scaler, std=tuple(1e300 for _ in artifact.scaler.std))
    save_artifact(folder, replace(artifact, scaler=scaler))
    return folder


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_40_numbers_that_are_not_finite_are_refused(score: Score, number: float, tmp_path: Path) -> None:
    for kept in model_folders().values():
        artifact = load_artifact(kept)
        names = ("head.weight", *(("domain",) if artifact.domain is not None else ()))
        for name in names:
            broken = artifact
            if name == "domain" and artifact.domain is not None:
                embeddings = np.full_like(artifact.domain.embeddings, number)
                broken = replace(artifact, domain=replace(artifact.domain, embeddings=embeddings))
            else:
                artifact.models[-1].head.weight[0, 0] = number
            save_artifact(tmp_path / kept.name, broken)
            score.count("model folders")
            with pytest.raises(InputError, match="not a finite number|holds nan|holds -?inf") as raised:
                library.load(tmp_path / kept.name)
            score.check("\n" not in str(raised.value), raised.value)
            artifact.models[-1].head.weight[0, 0] = 0.0


@pytest.mark.parametrize("workers", [0, 2])
def test_40_a_prediction_that_overflows_is_an_error_row(
    score: Score, molattn: Molattn, tmp_path: Path, workers: int
) -> None:
    table = tmp_path / "in.csv"
    table.write_text('smiles,y,z,c,q\nCCO,1,1,1,"[1,1,1]"\nc1ccccc1,2,1,0,"[1,1,1,1,1,1]"\nC1CC,3,1,1,[1]\n')
    for kept in ("regression", "quantile", "ensemble", "parent", "atoms", "computed")[: 1 if workers else None]:
        model = _overflowing(kept, tmp_path / kept)
        answer = molattn("predict", model, table, "-o", tmp_path / "out.csv", "--force", "-n", workers)
        score.count("model folders")
        score.check(answer.code == 0, f"{kept}: {answer.err}")
        score.check("Warning" not in answer.err, f"{kept}: {answer.err}")
        text = (tmp_path / "out.csv").read_text()
        rows = text.splitlines()[1:]
        score.rows(
            [("error" in row, MESSAGE in row) for row in rows],
            [(True, True)] * 2 + [(True, False)],
            kept,
            given=table.read_text().splitlines()[1:],
        )
        score.check("nan" not in text and "inf," not in text, f"{kept}: {text}")
        score.check(molattn("predict", model, "--smiles", "CCO", "--smiles", "CC").err.count("not a finite"), kept)
        if kept != "atoms":
            answer = molattn("predict", model, table, "-o", tmp_path / "out.csv", "--force", "--strict")
            score.check(answer.code == 4 and MESSAGE in answer.err, answer.err)


def test_40_every_function_and_command_reports_it(score: Score, molattn: Molattn, tmp_path: Path) -> None:
    model = _overflowing("regression", tmp_path / "model")
    artifact = load_artifact(model)
    artifact.model.norm.weight.fill_(3e38)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    artifact.model.norm.bias.fill_(3e38)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    save_artifact(model, artifact)
    table = tmp_path / "in.csv"
    table.write_text("smiles,y\nCCO,1\nc1ccccc1,2\n")
    out = tmp_path / "out"
    for command, code in (
        (("attention", model, table, "-o", f"{out}.parquet"), 3),
        (("explain", model, "--smiles", "CCO"), 3),
        (("explain", model, "--smiles", "CCO", "--method", "occlusion", "-o", f"{out}.svg"), 3),
        (("view", model, "--smiles", "CCO", "-o", f"{out}.html"), 3),
        (("heads", model, table), 3),
        (("evaluate", model, table), 3),
    ):
        score.count("commands")
        answer = molattn(*command)
        errors = [line for line in answer.err.strip().splitlines() if line.startswith("error: ")]
        details = f"{command[0]}: code {answer.code}: {answer.err}"
        score.check(answer.code == code and len(errors) == 1 and MESSAGE in answer.err, details)
        score.check("Traceback" not in answer.err and "RuntimeWarning" not in answer.err, details)
    predictor = library.load(model)
    with pytest.warns(MolattnWarning, match=MESSAGE):
        score.check(np.isnan(predictor.predict(["CCO", "CC"])).all(), "predict")
    with pytest.raises(SmilesError, match=MESSAGE):
        predictor.attention("CCO")
    with pytest.raises(SmilesError, match=MESSAGE):
        predictor.attributions("CCO")
    with pytest.warns(MolattnWarning, match=MESSAGE):
        score.check(np.isnan(predictor.embed(["CCO"])).all(), "embed")


def test_40_one_molecule_that_overflows_leaves_the_others(score: Score, predictor: Predictor) -> None:
    wanted = np.asarray(predictor.predict(["CCO", "CCCO", "CCN"]))
    model = predictor.model
    known = {molecule_graph(text).num_atoms for text in ("CCO", "CCN")}
    real = model.forward

    def broken(batch: torch.Tensor) -> torch.Tensor:
        found = real(batch)
        sizes = batch.mask.sum(1)  # pyright: ignore[reportAttributeAccessIssue]
        found[~torch.isin(sizes, torch.tensor([*known]))] = torch.inf
        return found

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", MolattnWarning)
        patch.setattr(model, "forward", broken)
        found = np.asarray(predictor.predict(["CCO", "CCCO", "CCN"]))
    score.rows([bool(x) for x in np.isfinite(found)], [True, False, True], given=["CCO", "CCCO", "CCN"])
    score.check(np.allclose(found[[0, 2]], wanted[[0, 2]], rtol=1e-6), f"{found}, {wanted}")


def test_42_hostile_model_folders(score: Score) -> None:
    command = [sys.executable, "-m", "tests.reliability.folders", "0", str(score.times(40, 1_000))]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=REPOSITORY, timeout=1_800)
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout)
    for what, number in found["tried"].items():
        score.count("model folders" if what == "folders" else what, number)
    score.end_to_end(found["digests"])
    for fault in found["faults"]:
        score.check(False, fault)
    score.check(found["tried"]["refused"] and found["tried"]["answered"], f"{found['tried']}: not both kinds")
    score.check(found["peak"] < 1024, f"{found['peak']:.0f} MiB")
    score.slowest("seconds of the slowest", found["slowest"])
    score.slowest("MiB at the most", found["peak"])
