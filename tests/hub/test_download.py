"""Models that are loaded from the hub: requests, the cache, and errors."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants as hub_constants
import numpy as np
import pytest

import molattn as library
from molattn.data.files import file_sha256
from molattn.data.schema import dumps_checksummed
from molattn.errors import InputError, MissingExtra, UsageError
from molattn.hub import download
from tests.cli.conftest import Molattn
from tests.hub.server import READER_TOKEN, HubServer, Repository
from tests.reliability.test_security import Payload

SMILES = ["CCO", "c1ccccc1", "CC(=O)O"]


def model_files(run: Path, prefix: str = "") -> dict[str, bytes]:
    """The two files of a run's model, in a folder of the repository."""
    return {prefix + name: (run / "model" / name).read_bytes() for name in ("config.json", "model.safetensors")}


@pytest.fixture
def repository(hub: HubServer, run: Path) -> Repository:
    """`user/model` on the hub: a model, together with files that need not be downloaded."""
    found = hub.repositories["user/model"] = Repository()
    others = {"README.md": b"# A model", "predictions.csv": b"never", "plots/parity.png": b"PNG", ".gitattributes": b""}
    found.commit("main", {**others, **model_files(run)}, "model")
    return found


def downloaded(hub: HubServer) -> list[str]:
    """The names of the files that were downloaded with GET, not only queried with HEAD."""
    return sorted(r.split("/", 4)[4] for r in hub.requests if r.startswith("GET ") and "/resolve/" in r)


def test_a_model_of_the_hub_predicts_the_same(hub: HubServer, repository: Repository, run: Path) -> None:
    predictor = library.load("hf://user/model")
    np.testing.assert_array_equal(predictor.predict(SMILES), library.load(run).predict(SMILES))
    assert predictor.address == f"hf://user/model@{repository.refs['main']}"
    assert library.load(run).address == ""
    assert downloaded(hub) == ["config.json", "model.safetensors"]


def test_a_second_load_asks_only_for_the_commit(hub: HubServer, repository: Repository) -> None:
    library.load("hf://user/model")
    hub.requests.clear()
    library.load(Path("hf://user/model"))
    assert downloaded(hub) == []
    assert {r for r in hub.requests if "resolve" in r} == {"HEAD user/model/resolve/main/config.json"}
    hub.requests.clear()
    library.load(f"hf://user/model@{repository.refs['main']}")
    assert hub.requests == []  # a commit never changes


@pytest.mark.parametrize("revision", ["v2", "refs/pr/1"])
def test_revisions(repository: Repository, run: Path, revision: str) -> None:
    first = repository.refs["main"]
    second = repository.commit("main", {**repository.files(), "README.md": b"# Another"}, "card")
    repository.refs[revision] = first
    assert library.load("hf://user/model").address.endswith(second)
    assert library.load(f"hf://user/model@{revision}").address.endswith(first)
    assert library.load(f"hf://user/model@{first}").address.endswith(first)
    sha256 = file_sha256(run / "model" / "config.json")
    assert library.load(f"hf://user/model@{first}#sha256={sha256.upper()}").address == (
        f"hf://user/model@{first}#sha256={sha256}"
    )


def test_cached_models_load_offline(hub: HubServer, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = library.load("hf://user/model").predict(SMILES)
    hub.requests.clear()
    monkeypatch.setattr(hub_constants, "HF_HUB_OFFLINE", True)
    for address in ("hf://user/model", f"hf://user/model@{repository.refs['main']}"):
        np.testing.assert_array_equal(library.load(address).predict(SMILES), expected)
    for address in ("hf://user/model@v2", "hf://user/other"):
        with pytest.raises(InputError, match=f"{address} is not in the cache of the hub, and HF_HUB_OFFLINE is set"):
            library.load(address)
    assert hub.requests == []


@pytest.mark.usefixtures("repository")
def test_a_hub_that_is_down(hub: HubServer, molattn: Molattn, monkeypatch: pytest.MonkeyPatch) -> None:
    library.load("hf://user/model")
    template = f"{UNUSED}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for down in (
        lambda: setattr(hub, "status", 503),
        lambda: monkeypatch.setattr(hub_constants, "HUGGINGFACE_CO_URL_TEMPLATE", template),
    ):
        down()
        code, out, err = molattn("predict", "hf://user/model", "--smiles", "CCO")
        assert code == 0 and "CCO" in out
        assert "the hub cannot be reached: hf://user/model is taken from its cache\n" in err
        with pytest.raises(
            InputError, match=r"the hub cannot be reached for hf://user/other \(.*\): check the network"
        ):
            library.load("hf://user/other")


UNUSED = "http://127.0.0.1:9"
"""Nothing answers there."""


def _without_token(hub: HubServer, patch: pytest.MonkeyPatch) -> None:
    patch.delenv("HF_TOKEN")
    hub.repositories["user/model"].private = True


def _gated(hub: HubServer, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("HF_TOKEN", READER_TOKEN)
    hub.repositories["user/model"].gated = True


def _wrong_token(_: HubServer, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("HF_TOKEN", "hf_expired")


def _other_program(hub: HubServer, _: pytest.MonkeyPatch) -> None:
    files = {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"large"}
    hub.repositories["user/model"].commit("main", files, "bert")


def _no_model(hub: HubServer, _: pytest.MonkeyPatch) -> None:
    hub.repositories["user/model"].commit("main", {"README.md": b""}, "card")


def _no_weights(hub: HubServer, _: pytest.MonkeyPatch) -> None:
    files = hub.repositories["user/model"].files()
    hub.repositories["user/model"].commit("main", {"config.json": files["config.json"]}, "config")


def _too_large(_: HubServer, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(download, "MAX_BYTES", 1000)


def _limited(hub: HubServer, _: pytest.MonkeyPatch) -> None:
    hub.status = 429


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("prepare", "address", "message"),
    [
        (
            None,
            "hf://user/modle",
            r"there is no model hf://user/modle, or it is private: check its name, or log in with",
        ),
        (_without_token, "hf://user/model", r"there is no model hf://user/model, or it is private: .*`hf auth login`"),
        (_wrong_token, "hf://user/model", "the hub does not accept your token for hf://user/model: .*`hf auth login`"),
        (_gated, "hf://user/model", r"is gated: accept its terms on http://127.0.0.1:\d+/user/model, and log in with"),
        (None, "hf://user/model@v9", r"hf://user/model has no revision 'v9': give a branch, a tag or all 40 digits"),
        (None, f"hf://user/model@{'0' * 40}", r"has no revision '0{40}'"),
        (
            None,
            f"hf://user/model#sha256={'0' * 64}",
            r"is not the model that its address describes: the SHA-256 of its",
        ),
        (
            _other_program,
            "hf://user/model",
            r"is not a model of molattn: its config.json was written by another program",
        ),
        (_no_model, "hf://user/model", r"is not a model of molattn: it has no config.json and model.safetensors"),
        (_no_weights, "hf://user/model", r"is not a model of molattn: it has no config.json and model.safetensors"),
        (_too_large, "hf://user/model", r"model.safetensors of hf://.* bytes, over the limit of 1,000: not downloaded"),
        (_limited, "hf://user/model", r"the hub responds to hf://user/model with 429 .*: try again later"),
    ],
)
def test_models_that_cannot_be_loaded_raise_one_sentence(
    hub: HubServer,
    molattn: Molattn,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[HubServer, pytest.MonkeyPatch], None] | None,
    address: str,
    message: str,
) -> None:
    if prepare is not None:
        prepare(hub, monkeypatch)
    with pytest.raises(InputError, match=message):
        library.load(address)
    code, out, err = molattn("predict", address, "--smiles", "CCO")
    assert (code, out, err.count("\n"), err.startswith("error: ")) == (3, "", 1, True)
    assert "model.safetensors" not in downloaded(hub)


def test_the_weights_of_another_program_are_not_downloaded(
    hub: HubServer, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    _other_program(hub, monkeypatch)
    with pytest.raises(InputError, match="is not a model of molattn"):
        library.load("hf://user/model")
    assert downloaded(hub) == ["config.json"]
    assert len(repository.commits) == 3


def test_a_run_folder_that_was_uploaded_as_it_is(hub: HubServer, run: Path) -> None:
    files = {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}
    hub.repositories["user/run"] = Repository()
    hub.repositories["user/run"].commit("main", files, "run")
    np.testing.assert_array_equal(library.load("hf://user/run").predict(SMILES), library.load(run).predict(SMILES))
    assert downloaded(hub) == ["faithfulness.json", "model/config.json", "model/model.safetensors"]


# Models of the hub are untrusted files.


def test_a_pickle_in_place_of_the_weights_is_never_run(hub: HubServer, repository: Repository, tmp_path: Path) -> None:
    marker = tmp_path / "was-run"
    payload = pickle.dumps(Payload(marker))
    # An attacker who replaces weights by a pickle also updates the checksums.
    config = json.loads(repository.files()["config.json"])
    config["sha256"] = {"model.safetensors": hashlib.sha256(payload).hexdigest()}
    files = {"config.json": dumps_checksummed(config, "config.json"), "pytorch_model.bin": payload}
    repository.commit("main", {**files, "model.safetensors": payload}, "evil")
    with pytest.raises(
        InputError, match=r"^hf://user/model@\w{40}: .* is damaged or was changed: .*`hf cache rm model/u"
    ):
        library.load("hf://user/model")
    assert not marker.exists()
    assert "pytorch_model.bin" not in downloaded(hub)


def test_weights_that_were_changed_are_refused(repository: Repository) -> None:
    files = repository.files()
    weights = bytearray(files["model.safetensors"])
    weights[-1] ^= 1
    repository.commit("main", {**files, "model.safetensors": bytes(weights)}, "changed")
    with pytest.raises(InputError, match="its checksum differs from the one in config.json"):
        library.load("hf://user/model")


def test_a_plugin_is_never_taken_from_the_hub(repository: Repository, tmp_path: Path) -> None:
    config = json.loads(repository.files()["config.json"])
    config["model"]["score"], config["sha256"] = "evil", {"model.safetensors": config["sha256"]["model.safetensors"]}
    code = f"open({str(tmp_path / 'was-run')!r}, 'w')".encode()
    files = {"config.json": dumps_checksummed(config, "config.json"), "evil.py": code, "molattn_plugins.py": code}
    repository.commit("main", {**repository.files(), **files}, "plugin")
    with pytest.raises(InputError, match=r"hf://user/model@\w+: .* requires what is not available: .*'evil'"):
        library.load("hf://user/model")
    assert not (tmp_path / "was-run").exists()


# Commands


def test_commands_take_an_address_as_a_run(
    hub: HubServer, repository: Repository, run: Path, table: Path, molattn: Molattn, tmp_path: Path
) -> None:
    commit = repository.refs["main"]
    for k, source in enumerate(("hf://user/model", run)):
        assert molattn("predict", source, table, "-o", tmp_path / f"{k}.csv").code == 0
        assert molattn("embed", source, table, "-o", tmp_path / f"{k}.npy").code == 0
        assert molattn("explain", source, "--smiles", "CCO", "-o", tmp_path / f"{k}.txt.csv").code == 0
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    assert (tmp_path / "0.npy").read_bytes() == (tmp_path / "1.npy").read_bytes()
    assert (tmp_path / "0.txt.csv").read_bytes() == (tmp_path / "1.txt.csv").read_bytes()
    code, out, err = molattn("evaluate", "hf://user/model", table, "--json")
    assert code == 0 and json.loads(out)["targets"]["y"]["n"] == 40
    assert f"hf://user/model resolves to hf://user/model@{commit}\n" in err
    assert molattn("view", "hf://user/model", "--smiles", "CCO", "-o", tmp_path / "page.html").code == 0
    code, _, err = molattn("heads", "hf://user/model")
    assert code == 2 and "error: hf://user/model has no predictions.csv" in err
    for runs in (("hf://user/model",), (run, "hf://user/model")):
        code, _, err = molattn("report", *runs, "-o", tmp_path / "report.html")
        assert code == 2 and err.startswith("error: hf://user/model is on the hub, without predictions.csv: a report")
    code, _, err = molattn("push", "hf://user/model", "hf://user/other")
    assert code == 2 and err.startswith("error: hf://user/model is on the hub already: give the folder of a run")
    assert "predictions.csv" not in downloaded(hub)


def test_results_are_not_written_into_the_cache(repository: Repository, table: Path, molattn: Molattn) -> None:
    commit = repository.refs["main"]
    code, _, err = molattn("faithfulness", "hf://user/model", table)
    assert code == 2
    assert f"`hf download user/model --revision {commit} --local-dir FOLDER`, and measure FOLDER" in err
    with pytest.raises(UsageError, match="where no results are saved"):
        library.load("hf://user/model").faithfulness(table=table)


def test_a_base_model_and_its_commit(
    hub: HubServer, repository: Repository, table: Path, molattn: Molattn, tmp_path: Path
) -> None:
    base = Path(__file__).parents[2] / "bases" / "nci"
    names = ("config.json", "model.safetensors", "card.toml")
    found = hub.repositories["user/base"] = Repository()
    commit = found.commit("main", {name: (base / name).read_bytes() for name in names}, "base")
    arguments = ("train", table, "--base", "hf://user/base", "--epochs", "1", "--accelerator", "cpu", "--quiet")
    assert molattn(*arguments, "-o", tmp_path / "run").code == 0
    assert f'base = "hf://user/base@{commit}"' in (tmp_path / "run" / "config.toml").read_text()
    assert molattn(*arguments[:3], "nci", *arguments[4:], "-o", tmp_path / "same").code == 0
    first, second = (library.load(tmp_path / name).predict(SMILES) for name in ("run", "same"))
    np.testing.assert_array_equal(first, second)
    code, _, err = molattn("train", table, "--base", "hf://user/model", "-o", tmp_path / "other")
    assert code == 2 and f"there is no base model 'hf://user/model@{repository.refs['main']}'" in err


def test_without_the_client_library(monkeypatch: pytest.MonkeyPatch, molattn: Molattn) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"a model on the hub needs huggingface_hub: pip install 'molattn\[hub\]'"):
        library.load("hf://user/model")
    assert molattn("predict", "hf://user/model", "--smiles", "CCO").code == 5


@pytest.mark.usefixtures("repository")
def test_the_variables_of_the_hub_are_respected(hub: HubServer, tmp_path: Path) -> None:
    """In a process of its own, which reads its environment as that of a user."""
    home = tmp_path / "home"
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home)}
    environment.pop("HF_TOKEN")
    command = [sys.executable, "-m", "molattn", "predict", "hf://user/model", "--smiles", "CCO"]
    first = subprocess.run([*command, "--quiet"], env=environment, capture_output=True, text=True)
    assert (first.returncode, first.stderr) == (0, "")
    assert list(home.glob("hub/models--user--model/snapshots/*/model.safetensors"))
    offline = {**environment, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": UNUSED}
    second = subprocess.run(command, env=offline, capture_output=True, text=True)
    assert (second.returncode, second.stdout) == (0, first.stdout)
