"""Pretraining of a base model on RDKit's descriptors and masked atoms, without labels."""

import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from molattn.chem import DESCRIPTORS
from molattn.data.files import clear_folder, file_sha256, remove_temporary_files, write_text
from molattn.data.locks import is_empty_folder, lock_folder
from molattn.data.store.cache import cached_molecules
from molattn.errors import InputError, MolattnError, SmilesError, UsageError
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.base import MoleculeModel
from molattn.models.config_file import WEIGHTS
from molattn.models.random_states import seeded
from molattn.models.scaler import TargetScaler
from molattn.training.bases import CARD
from molattn.training.callbacks import ReportEpochs, build_callbacks
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.dataset import LabelledMolecules
from molattn.training.descriptors import DescriptorTargets, compute_descriptors, standardize_targets
from molattn.training.early_stopping import EpochRecord, FitResult
from molattn.training.fit import fit
from molattn.training.initialization import initialize_model
from molattn.training.objectives import MaskedAtomPrediction
from molattn.training.prepare import featurization, read_options
from molattn.training.pretrain_config import PretrainConfig, check_pretraining
from molattn.training.reporter import Reporter
from molattn.training.run_folder import write_history, write_rejected
from molattn.training.run_status import CHECKPOINT_FOLDER, check_folder_name
from molattn.training.table_source import table_options_of
from molattn.training.unlabelled import NCI_MOLECULES, UnlabelledMolecules, collect_molecules

_RESUME_HINT = "{} holds an unfinished pretraining: the same command with --resume continues it"

VALIDATION = 0.05
"""The fraction of the molecules for validation, which selects the best epoch."""

MIN_DIFFERING = 10
"""The number of training molecules that must differ from the median of a target for it to be used."""


@dataclass(frozen=True)
class PretrainResult:
    """The result of a pretraining.

    Attributes:
        folder: of the base model.
        molecules: the molecules that it was trained on.
        targets: their descriptors.
        history: of the epochs.
        best_epoch: the epoch whose weights it has, from 1.
    """

    folder: Path
    molecules: UnlabelledMolecules
    targets: DescriptorTargets
    history: list[EpochRecord]
    best_epoch: int


def pretrain(
    config: PretrainConfig, folder: str | Path, reporter: Reporter, force: bool = False, resume: bool = False
) -> PretrainResult:
    """Pretrain a model on descriptors of unlabelled molecules, and write it into `folder` as a base model.

    loss = mean over molecules and descriptors of (z - model)^2 + masked_weight * loss of masked atoms

    with z the standardized and clipped descriptors: see `standardize_targets` and `MaskedAtomPrediction`. The best
    epoch is selected on `VALIDATION` of the molecules. The folder then holds `model.safetensors` and `config.json`, a
    model of the descriptors, `card.toml`, which describes how it was made, and `history.csv`; for a table with rejected
    rows also `rejected.csv`. No pickle.

    Args:
        config: the settings.
        folder: of the base model, created if missing; it must be empty, except with `force` or `resume`.
        reporter: of the progress.
        force: replace a base model in `folder`.
        resume: continue an interrupted pretraining with the same settings.

    Raises:
        UsageError: invalid settings, a folder that exists, or nothing to resume.
        InputError: molecules that cannot be used.
    """
    check_pretraining(config)
    with lock_folder(Path(folder)):
        return _pretrain(config, Path(folder), reporter, force, resume)


def _pretrain(config: PretrainConfig, folder: Path, reporter: Reporter, force: bool, resume: bool) -> PretrainResult:
    _prepare_folder(folder, force, resume)
    run = config.run
    reporter.stage(f"reading the molecules of {'RDKit' if config.molecules == NCI_MOLECULES else config.molecules}")
    molecules = collect_molecules(
        config.molecules,
        smiles_column=run.data.smiles_column,
        table_options=table_options_of(run.data),
        max_molecules=config.max_molecules,
        num_generated=config.grow,
        seed=run.training.seed,
        exclude=config.exclude,
        max_atoms=run.data.max_atoms,
        num_workers=run.training.num_workers,
        progress=reporter.molecules,
    )
    _report_counts(config, molecules, reporter)
    reporter.stage("computing their descriptors")
    values = compute_descriptors(
        molecules.smiles, DESCRIPTORS, run.training.num_workers, reporter.molecules, run.data.max_atoms
    )
    train, val = _split(len(molecules.smiles), run.training.seed)
    targets = standardize_targets(DESCRIPTORS, values, train, min(MIN_DIFFERING, len(train) // 4))
    if not targets.names:
        raise InputError("no descriptor differs between these molecules: there is nothing to learn")
    model = initialize_model(run, len(targets.names), False)
    auxiliary_objective = _masked_atom_objective(config, model)
    stored, *_ = cached_molecules(
        molecules.smiles, featurization(run.data, type(model)), run.training.num_workers, reporter.molecules
    )
    if bad := next((m for m in stored if isinstance(m, SmilesError)), None):
        raise bad
    reporter.stage(f"pretraining on {len(train):,} molecules and {len(targets.names)} descriptors")
    start = time.perf_counter()
    checkpoints = CheckpointFolder(
        folder / CHECKPOINT_FOLDER, _identity(config, molecules), run.training.checkpoint_every
    )
    try:
        fitted = fit(
            model,
            LabelledMolecules(stored[train], targets.z[train]),
            LabelledMolecules(stored[val], targets.z[val]),
            TargetScaler.identity(len(targets.names)),
            run.training,
            auxiliary_objective=auxiliary_objective,
            checkpoints=checkpoints,
            callbacks=[*build_callbacks(run), ReportEpochs(reporter.epoch)],
        )
    except BaseException as error:
        if checkpoints.folder.is_dir() and not isinstance(error, MolattnError):
            reporter.stage(_RESUME_HINT.format(folder))
        raise
    seconds = checkpoints.seconds + time.perf_counter() - start
    _write(config, folder, model, molecules, targets, fitted, seconds)
    checkpoints.remove()
    return PretrainResult(folder, molecules, targets, fitted.history, fitted.best_epoch)


def _masked_atom_objective(config: PretrainConfig, model: MoleculeModel) -> MaskedAtomPrediction | None:
    """The auxiliary objective of masked atoms; None if the settings mask none.

    The same seed gives the same objective, and the caller's random state is unchanged.
    """
    if not config.masked_atoms:
        return None
    with seeded(config.run.training.seed):
        try:
            return MaskedAtomPrediction(model, config.masked_atoms, config.masked_weight)
        except ValueError as error:
            raise UsageError(f"{error}: add --masked-atoms 0") from None


def _prepare_folder(folder: Path, force: bool, resume: bool) -> None:
    """Check that a base model can be written to `folder`, and empty the folder if the model there is replaced."""
    if resume:
        if not (folder / CHECKPOINT_FOLDER).is_dir():
            raise UsageError(f"{folder} holds no unfinished pretraining: there is nothing to resume")
        remove_temporary_files(folder)
        return
    check_folder_name(folder)
    if folder.is_file():
        raise UsageError(f"{folder} is a file: give another --output-dir")
    if not folder.exists() or is_empty_folder(folder):
        return
    if not force and (folder / CHECKPOINT_FOLDER).is_dir():
        raise UsageError(f"{_RESUME_HINT.format(folder)}, --force starts over")
    if not force:
        raise UsageError(f"{folder} exists: give another --output-dir, or --force to replace the base model there")
    if not ((folder / CARD).is_file() or (folder / CHECKPOINT_FOLDER).is_dir()):
        raise UsageError(f"{folder} exists and is not a base model of molattn: --force replaces base models only")
    clear_folder(folder)


def _report_counts(config: PretrainConfig, molecules: UnlabelledMolecules, reporter: Reporter) -> None:
    """Report the number of molecules, and of those that were rejected, by reason."""
    message = f"{len(molecules.smiles):,} molecules"
    if molecules.num_generated:
        message += f", {molecules.num_generated:,} of them generated from the others"
    reporter.stage(message)
    for reason, count in molecules.rejection_counts.items():
        reporter.stage(f"left out: {count:,}, {reason}")
    if molecules.num_generated < config.grow:
        generated = f"{molecules.num_generated:,} of {config.grow:,} molecules"
        reporter.warning(f"only {generated} could be generated from so few")


def _split(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the training and the validation molecules."""
    if count < 2:
        raise InputError("training and validation need a molecule each: give two or more")
    order = np.random.default_rng(seed).permutation(count)
    num_val = max(1, round(VALIDATION * count))
    return np.sort(order[num_val:]), np.sort(order[:num_val])


def _identity(config: PretrainConfig, molecules: UnlabelledMolecules) -> dict[str, Any]:
    """What must be equal when a pretraining is resumed."""
    settings = asdict(config)
    settings["run"] = config.run.to_dict()
    del settings["run"]["training"]["num_workers"]
    return {"config": settings, "sha256 of the molecules": molecules.sha256}


def _write(
    config: PretrainConfig,
    folder: Path,
    model: MoleculeModel,
    molecules: UnlabelledMolecules,
    targets: DescriptorTargets,
    fitted: FitResult,
    seconds: float,
) -> None:
    """Write the files of the base model, its card last: a base model with a card is complete."""
    best = fitted.history[fitted.best_epoch - 1]
    artifact = Artifact(
        model.cpu(), targets.scaler, targets.names, ("",) * len(targets.names), read_options(config.run.data)
    )
    save_artifact(folder, artifact)
    write_history(folder, [fitted.history])
    write_rejected(folder / "rejected.csv", molecules.rejected)
    card = {
        "title": f"learned {len(targets.names)} descriptors"
        + (" and masked atoms" if config.masked_atoms else "")
        + f" of {len(molecules.smiles):,} molecules without labels",
        "command": config.command(),
        "seed": config.run.training.seed,
        "sha256": file_sha256(folder / WEIGHTS),
        "licence": "MIT, as molattn; the molecules come with RDKit (BSD-3-Clause)"
        if molecules.source == NCI_MOLECULES
        else "",
        "molecules": {
            "source": molecules.source,
            "count": len(molecules.smiles),
            "generated": molecules.num_generated,
            "sha256": molecules.sha256,
            "rejected": molecules.rejection_counts,
        },
        "targets": {
            "masked_atoms": config.masked_atoms,
            "descriptors": list(targets.names),
            "dropped": targets.dropped,
        },
        "training": {
            "parameters": sum(p.numel() for p in model.parameters()),
            "best_epoch": fitted.best_epoch,
            "epochs": len(fitted.history),
            "val_loss": round(best.val_loss, 5),
            "seconds": round(seconds, 1),
        },
        "versions": {name: version(name) for name in ("molattn", "torch", "rdkit")},
    }
    write_text(folder / CARD, tomli_w.dumps(card))
