"""Hyper-parameter optimisation with Optuna, by the metric of the validation molecules."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import tomli_w

from molattn.data.files import lock_folder, write_text
from molattn.errors import InputError, MissingExtra, UsageError
from molattn.models.base import MODELS
from molattn.training.bases import AUTO, NONE
from molattn.training.config import RunConfig, read_config
from molattn.training.dataset import PreparedDataset
from molattn.training.descriptors import check_featurizers
from molattn.training.fit import EpochRecord, fit_ensemble, initialize_model
from molattn.training.initialization import resolve_initialization
from molattn.training.metrics import METRICS, VAL_LOSS, resolve_metrics, resolve_tracking_metric
from molattn.training.prepare import prepare
from molattn.training.run import Reporter, check_config
from molattn.training.run_status import BEST, STUDY, TUNED
from molattn.training.search_space import Categorical, search_space, with_settings

if TYPE_CHECKING:
    import optuna

PRUNERS = ("median", "hyperband", "none")
TRIALS = "trials.csv"


@dataclass(frozen=True)
class TuneResult:
    """The result of a hyper-parameter optimisation.

    Attributes:
        folder: of the study.
        config: the best settings, those of `best.toml`.
        values: the values of the searched settings.
        metric: the validation metric that was optimised.
        value: that of the metric in the best trial.
        trials: the number of finished trials, including pruned ones.
    """

    folder: Path
    config: RunConfig
    values: dict[str, Any]
    metric: str
    value: float
    trials: int


@runtime_checkable
class TuneReporter(Reporter, Protocol):
    """Reports the progress of a hyper-parameter optimisation."""

    def trial(self, done: int, total: int, best: float | None) -> None:
        """Report the number of finished trials, and the best value."""


def tune(
    config: RunConfig,
    folder: Path,
    reporter: TuneReporter,
    trials: int = 20,
    search: Sequence[str] = (),
    pruner: str = "median",
    resume: bool = False,
) -> TuneResult:
    """Run trials until `trials` are finished, and write the best settings as `best.toml` for `molattn train --config`.

    Every trial trains one model on the training molecules, and its value is the validation metric of its best epoch;
    test and calibration molecules are not used. Trials start from scratch unless a base model is named, because a base
    model has a fixed size. Trials whose intermediate values are worse than most are pruned. All trials are stored in
    `study.jsonl` as they end: an interrupted study can be resumed, and its unfinished trial is repeated.

    Args:
        config: the settings that are not searched.
        folder: a new one; with `resume`, that of a study with the same settings.
        reporter: of the progress.
        trials: the total number, including those of a resumed study.
        search: the search space; see `search_space`.
        pruner: one of `PRUNERS`.
        resume: resume the study in `folder`.

    Raises:
        UsageError: invalid settings, a folder that exists, or a study with other settings.
        InputError: data that cannot be used, or no trial that gave a model.
        MissingExtra: Optuna is not installed.
    """
    with lock_folder(folder):
        return _tune(config, folder, reporter, trials, search, pruner, resume)


def _tune(
    config: RunConfig,
    folder: Path,
    reporter: TuneReporter,
    trials: int,
    search: Sequence[str],
    pruner: str,
    resume: bool,
) -> TuneResult:
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise MissingExtra("optuna", "tune", "molattn tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    check_config(config)
    if trials < 1:
        raise UsageError("--num-trials must be at least 1")
    if pruner not in PRUNERS:
        raise UsageError(f"there is no pruner {pruner!r}: choose among {', '.join(PRUNERS)}")
    base = NONE if config.training.base == AUTO else config.training.base
    config = replace(config, training=replace(config.training, num_replicates=1, base=base))
    # Resolved before anything is read, to raise errors early, and because `prepare` computes descriptors.
    resolved, _ = resolve_initialization(config)
    space = search_space(search, resolved)
    settings = {**resolved.to_dict(), "search": list(search), "pruner": pruner}
    _open_folder(folder, settings, resume)
    try:
        reporter.stage("reading molecules")
        training = config.training
        dataset = prepare(
            resolved.data,
            MODELS[config.model.kind],
            training.seed,
            training.num_workers,
            reporter.molecules,
            training.loss,
            training.alpha,
        )
    except BaseException:
        if not resume:
            _remove_settings(folder)
        raise
    for warning in dataset.warnings:
        reporter.warning(warning)
    names = resolve_metrics(dataset.task.kind, dataset.task.metrics, training.metrics)
    tracking_metric = resolve_tracking_metric(dataset.task.kind, names, training.tracking_metric)
    # Losses of trials with different settings cannot be compared.
    metric = names[0] if tracking_metric == VAL_LOSS else tracking_metric
    larger = METRICS[metric].larger_is_better
    check_featurizers(config, dataset.task.of_atoms)
    molecules = len(dataset.indices("train"))
    config, message = resolve_initialization(replace(config, data=dataset.config), dataset.task.of_atoms, molecules)
    if message:
        reporter.stage(message)
    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(folder / STUDY))),
            study_name="molattn",
            direction="maximize" if larger else "minimize",
            load_if_exists=True,
            pruner=_pruner(pruner, training.epochs),
        )
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise InputError(
            f"{folder / STUDY} is damaged, its trials cannot be read ({type(error).__name__}): begin anew with another "
            "--output-dir"
        ) from error
    # A new seed after each resumption, otherwise the same settings would be suggested again.
    study.sampler = optuna.samplers.TPESampler(seed=training.seed + len(study.trials), n_startup_trials=5)
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(trial.params)
    while (done := _finished(study)) < trials:
        reporter.trial(done, trials, _best(study))
        trial = study.ask()
        try:
            values = {name: _suggest(trial, name, where) for name, where in space.items()}
            tried = with_settings(config, values, "search")
            found = _run_trial(tried, dataset, metric, tracking_metric, trial, reporter)
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        except (UsageError, InputError) as error:
            # Incompatible settings, or a training without a model: finished, without a value.
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            reporter.warning(f"trial {trial.number + 1}: {error}")
        else:
            study.tell(trial, found)
        _write_trials(folder, study, list(space), metric)
    reporter.trial(done, trials, _best(study))
    if _best(study) is None:
        raise InputError(f"none of the {done} trials had a model with a defined metric: see {folder / TRIALS}")
    values = {name: study.best_trial.params[name] for name in space}
    best = with_settings(config, values, "search")
    text = f"# The best of {done} trials by the {METRICS[metric].label} of the validation molecules, "
    write_text(folder / BEST, f"{text}{study.best_value:.6g}.\n" + tomli_w.dumps(best.to_dict()))
    return TuneResult(folder, best, values, metric, study.best_value, done)


def _run_trial(
    config: RunConfig,
    dataset: PreparedDataset,
    metric: str,
    tracking_metric: str,
    trial: "optuna.Trial",
    reporter: TuneReporter,
) -> float:
    """The value of a trial: the metric of the validation molecules at the epoch that `tracking_metric` chooses."""
    import optuna

    check_config(config)
    single = replace(config, training=replace(config.training, ensemble_size=1))
    task = dataset.task
    train, val = dataset.subset("train"), dataset.subset("val")
    scaler = task.fit_scaler(train.targets)
    initialize_model(
        single, len(task.target_of_output(len(scaler.mean))), task.of_atoms
    )  # what does not go together fails here
    best = math.nan

    def on_epoch(record: EpochRecord) -> None:
        nonlocal best
        reporter.epoch(record, config.training.epochs)
        if record.best:
            best = record.val_metric
        if math.isfinite(best):
            trial.report(best, record.epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

    fit_ensemble(single, task, scaler, train, val, metric, on_epoch, tracking_metric=tracking_metric)
    if not math.isfinite(best):
        raise InputError(
            f"the {METRICS[metric].label} of the validation molecules is undefined: choose another --metric"
        )
    return best


def _suggest(trial: "optuna.Trial", name: str, where: Any) -> Any:
    if isinstance(where, Categorical):
        return trial.suggest_categorical(name, where.values)
    if where.is_integer:
        return trial.suggest_int(name, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(name, where.low, where.high, log=where.log)


def _pruner(name: str, epochs: int) -> "optuna.pruners.BasePruner":
    import optuna

    if name == "median":
        # First a few complete trials to compare with, and a few epochs of every trial.
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(1, epochs // 10))
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=max(1, epochs // 10), max_resource=epochs)
    return optuna.pruners.NopPruner()


def _finished(study: "optuna.Study") -> int:
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.get_trials(deepcopy=False))


def _best(study: "optuna.Study") -> float | None:
    """The value of the best trial; None before there is one."""
    if any(trial.state.name == "COMPLETE" for trial in study.get_trials(deepcopy=False)):
        return study.best_value
    return None


def _write_trials(folder: Path, study: "optuna.Study", names: list[str], metric: str) -> None:
    """`trials.csv`: a line for each trial, with its settings, value and state."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", f"val_{metric}", "epochs", *names, "error"])
    for trial in study.get_trials(deepcopy=False):
        values = trial.intermediate_values
        last = trial.value if trial.value is not None else values[max(values)] if values else ""
        row = [trial.number, trial.state.name.lower(), last, len(values)]
        writer.writerow([*row, *(trial.params.get(n, "") for n in names), trial.user_attrs.get("error", "")])
    write_text(folder / TRIALS, text.getvalue())


def _open_folder(folder: Path, settings: dict[str, Any], resume: bool) -> None:
    """Create the folder and write the settings of the study; with `resume`, compare them.

    Raises:
        UsageError: the folder exists, or is not that of a study with these settings.
    """
    if not resume:
        if (folder / TUNED).is_file():
            raise UsageError(f"{folder} holds a study: --resume {folder} continues it, or give another --output-dir")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists: give another --output-dir")
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / TUNED, tomli_w.dumps(settings))
        return
    if not (folder / TUNED).is_file():
        raise UsageError(f"{folder} is not a study of molattn tune, it has no {TUNED}: there is nothing to resume")
    before = read_config(folder / TUNED)
    now = json.loads(json.dumps(settings))
    for part in (before, now):
        if isinstance(part.get("training"), dict):
            part["training"].pop("num_workers", None)
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        raise UsageError(f"{folder} was started with other settings of {', '.join(changed)}: restore them")


def _remove_settings(folder: Path) -> None:
    """Remove the settings of a study that did not start."""
    (folder / TUNED).unlink(missing_ok=True)
