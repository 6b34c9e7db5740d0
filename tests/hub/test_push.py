"""`molattn push`: what is uploaded, and what stays on the machine."""

import json
import shutil
import sys
import tomllib
from pathlib import Path

import huggingface_hub.constants as hub_constants
import numpy as np
import pytest

import molattn as library
from molattn.data.files import file_sha256
from molattn.errors import InputError, MissingExtra, UsageError
from tests.cli.conftest import Molattn
from tests.hub.server import READER_TOKEN, HubServer, Repository

SMILES = ["CCO", "c1ccccc1", "CC(=O)O"]
MODEL = {"README.md", "config.json", "model.safetensors"}


def test_a_pushed_model_is_loaded_unchanged(hub: HubServer, run: Path) -> None:
    pushed = library.push(run, "hf://user/solubility")
    commit = hub.repositories["user/solubility"].refs["main"]
    sha256 = file_sha256(run / "model" / "config.json")
    assert pushed.address == f"hf://user/solubility@{commit}#sha256={sha256}"
    assert (pushed.commit, pushed.url) == (commit, f"{hub.url}/user/solubility")
    loaded = library.load(pushed.address)
    np.testing.assert_array_equal(loaded.predict(SMILES), library.load(run).predict(SMILES))
    assert loaded.config_sha256() == sha256


def test_no_molecule_of_the_training_is_uploaded(hub: HubServer, run: Path, table: Path) -> None:
    pushed = library.push(run, "hf://user/solubility")
    files = hub.repositories["user/solubility"].files()
    plots = {f"plots/{path.name}" for path in (run / "plots").iterdir()}
    assert {*files} == {*pushed.files} == MODEL | plots | {"metrics.json", "config.toml", "faithfulness.json"}
    assert {name: len(data) for name, data in files.items()} == dict(pushed.files)
    texts = "\n".join(data.decode() for name, data in files.items() if name.endswith((".md", ".json", ".toml")))
    smiles = {line.partition(",")[0] for line in table.read_text().splitlines()[1:]}
    assert [s for s in smiles if len(s) > 7 and s in texts] == []
    assert str(table.parent) not in texts  # no path of this machine
    settings = tomllib.loads(files["config.toml"].decode())
    assert settings["data"].pop("dataset") == table.name
    assert {**tomllib.loads((run / "config.toml").read_text())["data"], "dataset": ""} == {
        **settings["data"],
        "dataset": "",
    }


def test_a_second_push_removes_what_belongs_to_the_first_model(hub: HubServer, run: Path, tmp_path: Path) -> None:
    repository = hub.repositories["user/solubility"] = Repository()
    repository.commit("main", {"LICENSE": b"MIT", "plots/notes.txt": b"mine"}, "by hand")
    library.push(run, "user/solubility")
    library.load(run).save(tmp_path / "alone")
    pushed = library.push(tmp_path / "alone", "hf://user/solubility", commit_message="alone")
    assert {*pushed.files} == MODEL
    assert {*repository.files()} == MODEL | {"LICENSE", "plots/notes.txt"}
    assert repository.messages[-1] == "alone"
    before = repository.refs["main"]
    assert library.push(tmp_path / "alone", "hf://user/solubility").commit == before  # nothing has changed


def test_branches(hub: HubServer, run: Path) -> None:
    first = library.push(run, "hf://user/solubility", revision="v1")
    second = library.push(run, "hf://user/solubility@v1", license="mit")
    repository = hub.repositories["user/solubility"]
    assert first.commit != second.commit == repository.refs["v1"]
    assert repository.files() == {}
    assert library.load("hf://user/solubility@v1").address == f"hf://user/solubility@{second.commit}"
    with pytest.raises(InputError, match="is not a model of molattn"):
        library.load("hf://user/solubility")


def test_private(hub: HubServer, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.push(run, "hf://user/secret", private=True)
    library.push(run, "hf://user/secret", private=True, license="mit")
    assert hub.repositories["user/secret"].private
    library.load("hf://user/secret")
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(InputError, match="or it is private"):
        library.load("hf://user/secret@v1")
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    public = hub.repositories["user/public"] = Repository()
    with pytest.raises(UsageError, match="hf://user/public exists and is public: make it private on its page"):
        library.push(run, "hf://user/public", private=True)
    assert public.files() == {}


def test_a_dry_run_sends_no_request(
    hub: HubServer, run: Path, molattn: Molattn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, out, err = molattn("push", run, "hf://user/solubility", "--license", "mit", "--dry-run")
    assert code == 0
    assert out.startswith('---\nlibrary_name: "molattn"\n') and 'license: "mit"' in out
    assert "  model.safetensors\n" in err and err.endswith("not uploaded: --dry-run\n")
    assert hub.requests == [] and hub.repositories == {}
    with pytest.raises(MissingExtra, match=r"pip install 'molattn\[hub\]'"):
        library.push(run, "hf://user/solubility")


def test_the_command(hub: HubServer, run: Path, molattn: Molattn, tmp_path: Path) -> None:
    card = tmp_path / "card.md"
    card.write_text("---\nlicense: mit\n---\n# My own\n")
    arguments = ("--private", "--revision", "v1", "--message", "a model", "--card", card, "--quiet")
    code, out, err = molattn("push", run, "hf://user/solubility", *arguments)
    repository = hub.repositories["user/solubility"]
    assert (code, err) == (0, "")
    assert out.startswith(f"hf://user/solubility@{repository.refs['v1']}#sha256=")
    assert repository.private and repository.messages[-1] == "a model"
    assert repository.files("v1")["README.md"] == card.read_bytes()
    code, out, _ = molattn("predict", out.strip(), "--smiles", "CCO")
    assert code == 0 and "CCO" in out


def test_predictors_push_themselves(hub: HubServer, run: Path) -> None:
    predictor = library.load(run)
    assert {*predictor.push_to_hub("user/first", dry_run=True).files} > {*MODEL, "metrics.json"}
    predictor.push_to_hub("user/first", commit_message="first", license="mit")
    assert hub.repositories["user/first"].messages[-1] == "first"
    copied = library.load("hf://user/first").push_to_hub("user/second")
    assert {*copied.files} == MODEL
    np.testing.assert_array_equal(library.load("hf://user/second").predict(SMILES), predictor.predict(SMILES))
    estimator = library.MolAttentionRegressor(hidden_dim=8, num_layers=1, epochs=1, base="none")
    estimator.fit(["CO", "CCO", "CCCO", "CCCCO"], [65, 78, 97, 118])
    estimator.predictor_.push_to_hub("hf://user/third")
    np.testing.assert_allclose(library.load("hf://user/third").predict(SMILES), estimator.predict(SMILES), rtol=1e-6)


def test_faithfulness_is_pushed_with_the_model(hub: HubServer, run: Path, tmp_path: Path, molattn: Molattn) -> None:
    shutil.copytree(run, tmp_path / "run")
    assert molattn("faithfulness", tmp_path / "run", "--method", "occlusion", "--quiet").code == 0
    pushed = library.push(tmp_path / "run", "hf://user/measured")
    assert "faithfulness.json" in pushed.files
    assert "Not measured: `molattn faithfulness" not in pushed.card
    here, there = (
        library.load(path).attributions("CCO", method="occlusion") for path in (tmp_path / "run", pushed.address)
    )
    assert here.faithfulness == there.faithfulness
    assert "molecules of solubility.csv" in there.faithfulness
    other = json.loads((tmp_path / "run" / "faithfulness.json").read_text())
    other["weights_sha256"] = "0" * 64  # of another model
    (tmp_path / "run" / "faithfulness.json").write_text(json.dumps(other))
    pushed = library.push(tmp_path / "run", "hf://user/measured")
    assert "faithfulness.json" not in hub.repositories["user/measured"].files()
    assert "Not measured: `molattn faithfulness" in pushed.card


def test_a_base_model_is_pushed_with_its_card(hub: HubServer, molattn: Molattn) -> None:
    base = Path(__file__).parents[2] / "bases" / "nci"
    pushed = library.push(base, "hf://user/base")
    assert {*pushed.files} == {*MODEL, "card.toml"}
    assert "molattn train my.csv --base hf://user/base" in pushed.card and "3,990 of `nci`" in pushed.card
    assert hub.repositories["user/base"].files()["card.toml"] == (base / "card.toml").read_bytes()
    assert molattn("predict", "hf://user/base", "--smiles", "CCO").code == 0


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("hf://user/a/b", {}, "is not the address of a model on the hub"),
        ("user", {}, "is not the address of a model on the hub"),
        ("hf://user/a@v1", {"revision": "v2"}, "has the branch v1, and the revision is v2: give one of them"),
        (f"hf://user/a@{'a' * 40}", {}, "is a commit, which never changes: give a branch"),
        (f"hf://user/a#sha256={'a' * 64}", {}, "leave #sha256= out"),
        ("hf://user/a", {"revision": "a..b/../c"}, "is not the address of a model on the hub"),
        ("hf://user/a", {"license": "no\nsuch"}, "is not the name of a licence"),
    ],
)
def test_invalid_arguments_are_refused(
    hub: HubServer, run: Path, address: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        library.push(run, address, **options)  # pyright: ignore[reportArgumentType]
    assert hub.requests == []


def test_what_cannot_be_pushed(hub: HubServer, run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no model"):
        library.push(tmp_path, "hf://user/a")
    with pytest.raises(UsageError, match="hf://user/b is on the hub already: give the folder of a run"):
        library.push("hf://user/b", "hf://user/a")
    shutil.copytree(run, tmp_path / "unfinished")
    (tmp_path / "unfinished" / "metrics.json").unlink()
    with pytest.raises(InputError, match="holds an unfinished run"):
        library.push(tmp_path / "unfinished", "hf://user/a")
    shutil.copytree(run, tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(InputError, match="is damaged or was changed"):
        library.push(tmp_path / "damaged", "hf://user/a")
    with pytest.raises(InputError, match="cannot be read as a model card"):
        library.push(run, "hf://user/a", card=tmp_path / "none.md")
    assert hub.requests == []


@pytest.mark.parametrize(
    ("token", "address", "message"),
    [
        (None, "hf://user/new", "the hub requires authentication for hf://user/new: log in with `hf auth login`"),
        (
            "hf_expired",
            "hf://user/public",
            "the hub does not accept your token for hf://user/public: .*`hf auth login`",
        ),
        (READER_TOKEN, "hf://user/public", "you have no permission for this at hf://user/public: .*`hf auth login`"),
        ("hf_writer", "hf://other/new", "you have no permission for this at hf://other/new: .*`hf auth login`"),
    ],
)
def test_without_permission(
    hub: HubServer, run: Path, monkeypatch: pytest.MonkeyPatch, token: str | None, address: str, message: str
) -> None:
    public = hub.repositories["user/public"] = Repository()
    if token is None:
        monkeypatch.delenv("HF_TOKEN")
    else:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(InputError, match=message):
        library.push(run, address)
    assert public.files() == {}
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="hf://user/new is on the hub, and HF_HUB_OFFLINE is set: unset it"):
        library.push(run, "hf://user/new")
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", False)
    hub.status = 503
    with pytest.raises(InputError, match="the hub responds to .* with 503 Service Unavailable: try again later"):
        library.push(run, "hf://user/new")


def test_metadata_that_the_hub_refuses(hub: HubServer, run: Path, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("---\nlicense: no such\n---\n")
    with pytest.raises(UsageError, match=r'the hub refuses the model card: .*"license" must be one of mit'):
        library.push(run, "hf://user/a", card=tmp_path / "card.md")
    assert hub.repositories["user/a"].files() == {}
