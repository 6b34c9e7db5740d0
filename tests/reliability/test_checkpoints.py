"""Lines 21 to 25: saved files can be read after kills and full disks while saving, and damage raises an error."""

import errno
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import molattn as library
from molattn import Predictor
from molattn.chem import molecule_graph
from molattn.data.schema import dumps_checksummed
from molattn.data.store.cache import cached_molecules
from molattn.data.tables.parts import parts_folder
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import InputError
from molattn.explain import AttentionMap
from molattn.inference import output_parts
from molattn.models.config_schema import SCHEMA
from molattn.training.checkpoint_file import load_checkpoint
from tests.cli.conftest import Molattn
from tests.data.fill_store import reading
from tests.molecules import SPECIAL, esol
from tests.reliability.damage import damages, filled, largest_file, refuses_damage, small_disk
from tests.reliability.freeze import answers
from tests.reliability.savers import SAVERS, leftovers
from tests.reliability.score import Score
from tests.training.runs import REPOSITORY, interrupt, killed_and_resumed, same_runs, small_table, train_small

FROZEN = sorted((Path(__file__).parents[1] / "frozen").glob("*/*"))


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_table(tmp_path_factory.mktemp("sixty") / "t.csv")


@pytest.fixture(scope="module")
def unfinished(sixty: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs out of four."""
    folder = tmp_path_factory.mktemp("unfinished") / "run"
    interrupt(sixty, folder, 2, epochs=4)
    return folder


def test_21_kills_while_saving(score: Score, run: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        Path(__file__).with_name("savers.py"),
        run / "model",
        tmp_path / "s",
        score.times(3, 100),
    ]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command), "0"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    for what, counts in json.loads(done.stdout).items():
        score.count("kills", counts["kills"])
        score.check(counts["loadable"] == counts["kills"], f"{what}: {counts}")
        score.check(not counts["lost"], f"{what}: an older version came back: {counts}")
        score.check(not counts["remained"], f"{what}: temporary files remained: {counts}")


def test_22_kills_and_resumes(score: Score, sixty: Path, tmp_path: Path) -> None:
    kills = score.times(2, 20)
    found = killed_and_resumed(sixty, tmp_path, epochs=score.times(4, 150), kills=kills)
    score.count("kills", found[0])
    score.check(found == [kills, kills], f"killed and resumed {found} times")


def test_23_full_disks_while_saving(score: Score, run: Path, tmp_path: Path) -> None:
    for name, kind in SAVERS.items():
        folder = tmp_path / name
        saver = kind(run / "model", folder)
        saver.save(1)
        before = {path: path.read_bytes() for path in folder.iterdir()}
        largest, steps = max(map(len, before.values())), score.times(6, 60)
        for k in range(steps):
            score.count("full disks")
            with largest_file(largest * k // steps), pytest.raises(OSError, match="too large"):
                saver.save(2)
            after = {path: path.read_bytes() for path in folder.iterdir()}
            score.check(saver.version() == 1, f"{name}, limit {k}")
            # Nothing is lost; the folder has at most one more file, a complete one of the next version.
            score.check(before.items() <= after.items() and len(after) <= len(before) + 1, f"{name}: {[*after]}")
        saver.save(2)
        score.check(saver.version() == 2, f"{name}: it cannot be saved afterwards")


def test_23_every_page_of_a_full_disk(score: Score, run: Path, tmp_path: Path) -> None:
    for name, kind in SAVERS.items():
        with small_disk(tmp_path / name, 8 * 2**20) as mounted:
            if not mounted:  # the test above does without
                score.count("disks that could not be mounted")
                continue
            folder = tmp_path / name / "saved"
            saver = kind(run / "model", folder)
            saver.save(1)
            for pages in range(0, 1000, score.times(7, 1)):
                with filled(tmp_path / name, pages):
                    try:
                        saver.save(2)
                    except OSError as error:
                        score.count("full disks")
                        score.check(error.errno == errno.ENOSPC, f"{name}, {pages} pages: {error}")
                        score.check(saver.version() == 1, f"{name}, {pages} pages: another version")
                        score.check(not leftovers(folder), f"{name}, {pages} pages: a temporary file was left")
                    else:
                        break
            score.check(saver.version() == 2, f"{name}: it cannot be saved afterwards")


def test_23_full_disks_in_a_resumed_training(
    score: Score, molattn: Molattn, sixty: Path, unfinished: Path, tmp_path: Path
) -> None:
    train_small(sixty, tmp_path / "whole", epochs=4)
    largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file())
    steps = score.times(2, 25)
    for k in range(steps):
        copy = tmp_path / f"run-{k}"
        shutil.copytree(unfinished, copy)
        limit = 1 + largest * k // steps

        def resumed(*arguments: object, limit: int = limit) -> object:
            with largest_file(limit):
                return molattn(*arguments)

        answer = resumed("train", "--resume", copy, "--quiet")
        score.count("full disks")
        errors = [line for line in answer.err.strip().splitlines() if not line.startswith("warning:")]
        score.check(answer.code == 3, f"code {answer.code}, limit {limit}: {answer.err}")
        score.check(len(errors) == 1 and errors[0].startswith("error: "), f"limit {limit}: {answer.err}")
        score.check(molattn("train", "--resume", copy, "--quiet").code == 0, f"it does not go on after limit {limit}")
        same_runs(copy, tmp_path / "whole")


def test_24_damaged_models_checkpoints_and_maps(
    score: Score, run: Path, unfinished: Path, predictor: Predictor, tmp_path: Path
) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    shutil.copytree(unfinished / "checkpoint", tmp_path / "checkpoint")
    (weights,) = (tmp_path / "checkpoint").glob("epoch-*.safetensors")
    (tmp_path / "maps").mkdir()
    predictor.attention("CCO").save(tmp_path / "maps" / "map.safetensors")
    of_model, of_checkpoint = partial(library.load, tmp_path / "model"), partial(load_checkpoint, weights.parent)
    each = score.times(20, 220)
    refuses_damage(score, tmp_path / "model" / "model.safetensors", of_model, each)
    refuses_damage(score, tmp_path / "model" / "config.json", of_model, each)
    refuses_damage(score, weights, of_checkpoint, each)
    refuses_damage(score, weights.with_name("state.json"), of_checkpoint, each)
    path = tmp_path / "maps" / "map.safetensors"
    refuses_damage(score, path, partial(AttentionMap.load, path), each)


def test_24_damaged_stores_are_read_again(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path))
    smiles = [*esol(20)[0], "C1CC"]
    how = reading(molecule_graph)

    def read() -> list[object]:
        return [str(m) for m in cached_molecules(smiles, how).molecules]

    wanted = read()
    (folder,) = [path for path in (tmp_path / "molecules").iterdir() if path.is_dir()]
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for data in damages(whole, score.times(1, 4)) if whole else ():
            path.write_bytes(data)
            score.count("corrupt files")
            score.rows(read(), wanted, path.name, given=smiles)
            score.check(path.read_bytes() == whole, f"{path.name} stayed damaged")


def test_24_damaged_parts_are_predicted_again(
    score: Score, molattn: Molattn, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 1)
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("smiles\n" + "".join("C" * (1 + i % 9) + "\n" for i in range(2 * CHUNK_SIZE + 10)))
    assert molattn("predict", run, table, "-o", out).code == 0
    wanted = out.read_text().splitlines()
    out.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("molattn.data.tables.parts.Parts.join", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        assert molattn("predict", run, table, "-o", out).code == 130
    parts = parts_folder(out)
    shutil.copytree(parts, tmp_path / "kept")
    names = sorted(path.name for path in parts.iterdir() if path.name != "manifest.json")
    for name in names[: score.times(2, 6)]:
        for data in damages((parts / name).read_bytes(), score.times(1, 6), seed=len(name)):
            (parts / name).write_bytes(data)
            score.count("corrupt files")
            answer = molattn("predict", run, table, "-o", out, "--resume")
            score.check(answer.code == 0, answer.err)
            lines = out.read_text().splitlines() if out.exists() else []
            score.rows(lines, wanted, name, given=table.read_text().splitlines()[1:])
            out.unlink(missing_ok=True)
            shutil.rmtree(parts, ignore_errors=True)
            shutil.copytree(tmp_path / "kept", parts)


@pytest.mark.parametrize("folder", FROZEN, ids=["-".join(path.parts[-2:]) for path in FROZEN])
def test_25_models_of_every_release_load(score: Score, folder: Path, tmp_path: Path) -> None:
    predictor = library.load(folder)
    found, wanted = answers(predictor), json.loads((folder / "answers.json").read_text())
    score.count("models of releases")
    score.rows([len(row) for row in found], [len(row) for row in wanted], given=SPECIAL)
    for smiles, a, b in zip(SPECIAL, found, wanted, strict=True):
        close = np.allclose(_flat(a), _flat(b), rtol=1e-6, atol=1e-6)
        score.check(close, f"{smiles}: {a} and {b}")
        score.wrong_rows += not close
    shutil.copytree(folder, tmp_path / "newer")
    config = json.loads((folder / "config.json").read_text())
    newer = {**config, "schema": SCHEMA + 1, "molattn": "99.0"}
    (tmp_path / "newer" / "config.json").write_bytes(dumps_checksummed(newer, "config.json"))
    with pytest.raises(InputError, match=r"written by molattn 99\.0: upgrade molattn"):
        library.load(tmp_path / "newer")


def _flat(value: object) -> list[float]:
    """The numbers in nested lists."""
    return [x for item in value for x in _flat(item)] if isinstance(value, list) else [value]  # pyright: ignore[reportReturnType]
