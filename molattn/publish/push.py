"""`molattn.push`: upload a trained model to the Hugging Face Hub, with its model card."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from molattn.errors import InputError, UsageError
from molattn.explain.faithfulness_file import FILE as FAITHFULNESS_FILE
from molattn.hub.address import HubAddress, address_text, is_hub_address, parse_address
from molattn.hub.client import hub_errors, import_hub, user_agent
from molattn.models.artifact_file import load_artifact
from molattn.models.config_file import CONFIG_JSON, WEIGHTS
from molattn.publish.card import model_card
from molattn.publish.run_files import RunFiles, read_run
from molattn.training.bases import CARD
from molattn.training.run_status import CONFIG_FILE, METRICS_FILE, check_has_model

README = "README.md"
PLOTS = "plots"

_PATHS = (("data", "dataset"), ("data", "data_dir"), ("data", "splits_file"), ("training", "base"))
"""Settings that may be local paths; only the file name of such a path is uploaded."""


@dataclass(frozen=True)
class PushedModel:
    """A model on the hub, or what a dry run would upload.

    Attributes:
        address: hf://user/model@COMMIT#sha256=..., which loads exactly this model; without a commit for a dry run.
        url: the URL of its page; empty for a dry run.
        commit: the 40 digits of the commit; empty for a dry run.
        files: the names of its files in the repository, and their sizes in bytes.
        card: the text of its model card.
    """

    address: str
    url: str
    commit: str
    files: Mapping[str, int]
    card: str


def push(
    run: str | Path,
    address: str,
    *,
    private: bool = False,
    revision: str = "",
    commit_message: str = "",
    license: str = "",
    card: str | Path | None = None,
    dry_run: bool = False,
) -> PushedModel:
    """Upload a trained model to the Hugging Face Hub, with its metrics, plots and model card.

    The training data and the predictions of its molecules are not uploaded. But a model with an applicability domain
    contains fingerprints of training molecules.

    Args:
        run: the folder of a finished run, of a model that `Predictor.save` wrote, or of a base model.
        address: hf://user/model, or hf://user/model@branch. The repository is created if it does not exist.
        private: whether the repository is private; an existing public one is an error.
        revision: a branch, which is created if it does not exist; empty for that of `address`, or the main branch.
        commit_message: message of the commit; empty for a default.
        license: identifier of the licence on the hub, such as "mit", for the generated card; empty for none.
        card: a file with a model card of your own; None to generate it from the run folder.
        dry_run: upload nothing, and do not contact the hub.

    Returns:
        A `PushedModel`: `.address`, `.url`, `.commit`, `.files` and `.card`.

    Raises:
        UsageError: an address or a licence that is malformed, two different branches, a commit instead of a branch, a
            public repository instead of a private one, or metadata of the card that the hub does not accept.
        InputError: there is no model, its files are damaged, or the hub does not respond or denies access.
        MissingExtra: huggingface_hub is not installed; a dry run does not need it.

    >>> import tempfile
    >>> import molattn
    >>> smiles, boiling_points = ["CO", "CCO", "CCCO", "CCCCO"], [65, 78, 97, 118]
    >>> model = molattn.MolAttentionRegressor(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, boiling_points)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.predictor_.save(folder)
    ...     pushed = molattn.push(folder, "hf://user/boiling-points", license="mit", dry_run=True)
    >>> [*pushed.files]
    ['README.md', 'config.json', 'model.safetensors']
    >>> pushed.card.splitlines()[:3]
    ['---', 'library_name: "molattn"', 'pipeline_tag: "graph-ml"']
    """
    target = _target(address, revision)
    folder = _local_run(run)
    check_has_model(folder)
    run_files = read_run(folder)
    load_artifact(run_files.model)  # raises errors of a damaged model before anything is uploaded
    text = model_card(folder, target, license) if card is None else _read_card(Path(card))
    files = {README: text.encode(), **_files(run_files)}
    sizes = {name: len(c) if isinstance(c, bytes) else c.stat().st_size for name, c in files.items()}
    pushed = PushedModel(str(replace(target, sha256=run_files.config_sha256)), "", "", sizes, text)
    if dry_run:
        return pushed
    commit, url = _upload(target, files, private, commit_message or f"A model of molattn {run_files.config['molattn']}")
    return replace(
        pushed, address=str(target.at(commit)) + f"#sha256={run_files.config_sha256}", commit=commit, url=url
    )


def _target(address: str, revision: str) -> HubAddress:
    """The repository, and the branch as revision, which is empty for the main branch.

    Raises:
        UsageError: two different branches, a commit instead of a branch, or a checksum.
    """
    target = parse_address(address if is_hub_address(address) else f"hf://{address}")
    if target.sha256:
        raise UsageError(f"{address} has a checksum, and the uploaded model has its own: leave #sha256= out")
    if revision and target.revision not in ("", revision):
        raise UsageError(
            f"{address} has the branch {target.revision}, and the revision is {revision}: give one of them"
        )
    if revision:
        target = parse_address(f"hf://{target.repository}@{revision}")
    if target.is_commit:
        raise UsageError(f"{target} is a commit, which never changes: give a branch")
    return target


def _local_run(run: str | Path) -> Path:
    if is_hub_address(run):
        raise UsageError(f"{address_text(run)} is on the hub already: give the folder of a run on this machine")
    return Path(run)


def _read_card(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a model card: {error}") from error


def _files(run_files: RunFiles) -> dict[str, bytes | Path]:
    """The files to upload, by their names in the repository: their contents, or their paths."""
    run, files = run_files.folder, dict[str, bytes | Path]()
    for name in (CONFIG_JSON, WEIGHTS):
        files[name] = run_files.model / name
    if run_files.metrics and not run_files.is_base:
        files[METRICS_FILE] = run / METRICS_FILE
    if run_files.settings and run_files.metrics:
        files[CONFIG_FILE] = tomli_w.dumps(_without_paths(run_files.settings)).encode()
    if run_files.faithfulness:
        files[FAITHFULNESS_FILE] = run / FAITHFULNESS_FILE
    if run_files.is_base:
        files[CARD] = run / CARD
    return files | {f"{PLOTS}/{path.name}": path for path in sorted((run / PLOTS).glob("*.png"))}


def _without_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with file names in place of local paths, which would reveal the folders of this machine."""
    sections = {name: dict(section) for name, section in settings.items()}
    for section, key in _PATHS:
        value = sections.get(section, {}).get(key)
        if isinstance(value, str) and not is_hub_address(value):
            sections[section][key] = os.path.basename(value.replace("\\", "/").rstrip("/"))
    return sections


def _upload(target: HubAddress, files: Mapping[str, bytes | Path], private: bool, message: str) -> tuple[str, str]:
    """Upload the files in one commit, which removes other files of an earlier push.

    Returns the hash of the commit, and the URL of the page.
    """
    hub = import_hub()
    api, name, branch = hub.HfApi(**user_agent()), target.repository, target.revision or None
    with hub_errors(target):
        url = api.create_repo(name, private=private or None, exist_ok=True)
        if private and not api.model_info(name).private:
            raise UsageError(f"hf://{name} exists and is public: make it private on its page, or leave --private out")
        if branch is not None:
            api.create_branch(name, branch=branch, exist_ok=True)
        old = _pushed_files(api.list_repo_files(name, revision=branch)) - {*files}
        operations = [hub.CommitOperationDelete(path) for path in sorted(old)]
        operations += [hub.CommitOperationAdd(path, _file_argument(content)) for path, content in files.items()]
        try:
            info = api.create_commit(name, operations, commit_message=message, revision=branch)
        except hub.errors.HfHubHTTPError:
            raise
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"the hub refuses the model card: {reason}") from error
    return info.oid, str(url)


def _pushed_files(names: Sequence[str]) -> set[str]:
    """The files in a repository, of `names`, that have the names of files that `push` uploads."""
    pushed = {CONFIG_JSON, WEIGHTS, METRICS_FILE, CONFIG_FILE, FAITHFULNESS_FILE, CARD}
    return {name for name in names if name in pushed or (name.startswith(f"{PLOTS}/") and name.endswith(".png"))}


def _file_argument(content: bytes | Path) -> Any:
    """The content, or the path as a string, as `CommitOperationAdd` takes them."""
    return str(content) if isinstance(content, Path) else content
