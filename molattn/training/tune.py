"""Hyper-parameter optimization with Optuna, by the metric of the validation molecules."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import tomli_w

from molattn.data.files import write_text
from molattn.data.locks import lock_folder
from molattn.errors import InputError, MissingExtra, UsageError, unknown_choice
from molattn.training.bases import AUTO_BASE, NO_BASE, fixed_by_base
from molattn.training.callbacks import Callback, ReportEpochs
from molattn.training.dataset import PreparedDataset
from molattn.training.early_stopping import EpochRecord
from molattn.training.fit import fit_ensemble
from molattn.training.initialization import initialize_model, resolve_initialization
from molattn.training.learner import Learner
from molattn.training.metrics import METRICS, VAL_LOSS, check_tracking_metric, resolve_metrics
from molattn.training.prepare import prepare_run
from molattn.training.run import Reporter
from molattn.training.run_config import RunConfig, check_config
from molattn.training.run_status import BEST_CONFIG
from molattn.training.search_space import Categorical, NumericRange, Space, search_space, value_of, with_settings
from molattn.training.study import (
    TRIALS,
    SharedStudy,
    check_study,
    create_study,
    is_default,
    open_study,
    remove_study,
    study_lock,
)

if TYPE_CHECKING:
    import optuna

PRUNERS = ("median", "hyperband", "none")

DEFAULT_TRIALS = 20


@dataclass(frozen=True)
class TuneResult:
    """The result of a hyper-parameter optimization.

    Attributes:
        folder: of the study.
        config: the best settings, those of a training with `best.toml`.
        values: the values of the searched settings.
        metric: the validation metric that was optimized.
        value: the metric in the best trial.
        trials: the number of finished trials, including pruned ones.
        number: the number of the best trial, from 0.
        default_values: the values of the searched settings in the default trial.
        default_value: the metric in the default trial; None if it has none.
        is_default: whether no trial was better than the default one.
    """

    folder: Path
    config: RunConfig
    values: dict[str, Any]
    metric: str
    value: float
    trials: int
    number: int
    default_values: dict[str, Any]
    default_value: float | None
    is_default: bool


@runtime_checkable
class TuneReporter(Reporter, Protocol):
    """Reports the progress of a hyper-parameter optimization."""

    def trial(self, done: int, total: int, best: float | None) -> None:
        """Report the number of finished trials, and the best value."""


def tune(
    config: RunConfig,
    folder: Path,
    reporter: TuneReporter,
    trials: int = DEFAULT_TRIALS,
    search: Sequence[str] = (),
    pruner: str = "median",
    resume: bool = False,
) -> TuneResult:
    """Run trials until `trials` are finished, and write the best settings as `best.toml` for `molattn train --config`.

    The first trial is the default one: it trains with `config`, as `molattn train` does. The others change the searched
    settings. If one of these is fixed by the base model that `config` starts from by default, all trials but the first
    train from scratch.

    An interrupted study can be resumed. Several processes may resume one at the same time, and share its trials.

    Args:
        config: the settings that are not searched.
        folder: a new one; with `resume`, that of a study with the same settings.
        reporter: of the progress.
        trials: the total number, including those of a resumed study and of other processes.
        search: the search space; see `search_space`.
        pruner: one of `PRUNERS`.
        resume: resume the study in `folder`.

    Raises:
        UsageError: invalid settings, a folder that exists, or a study with other settings.
        InputError: data that cannot be used, or no trial with a value.
        MissingExtra: Optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune", "molattn tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    check_config(config)
    if trials < 1:
        raise UsageError("--num-trials must be at least 1")
    if pruner not in PRUNERS:
        raise UsageError(unknown_choice("pruner", pruner, PRUNERS))
    # Errors of the settings are raised before anything is read.
    search_space(search, resolve_initialization(config)[0])
    settings = {**config.explicit_settings(), "search": list(search), "pruner": pruner}
    if resume:
        check_study(folder, settings, trials)
    else:
        with lock_folder(folder):
            create_study(folder, settings, trials)
    try:
        default, searched, space = _prepare_trials(config, search, reporter)
    except BaseException:
        if not resume:
            remove_study(folder)
        raise
    task, default_config = default.dataset.task, default.resolved({})
    names = resolve_metrics(task.kind, task.metrics, config.training.metrics)
    tracked = config.training.tracking_metric
    check_tracking_metric(task.kind, names, tracked)
    # Losses of trials with different settings cannot be compared.
    metric = names[0] if tracked == VAL_LOSS else tracked
    defaults = {name: value_of(default_config, name) for name in space}
    # The sampler learns from the default trial, unless the other trials start from another initialization.
    known = {name: value for name, value in defaults.items() if searched is default and space[name].contains(value)}
    optuna_pruner = _pruner(pruner, default_config.training.epochs)
    with open_study(folder, METRICS[metric].larger_is_better, optuna_pruner, config.training.seed, known) as study:
        waiting = False

        def on_wait() -> None:
            nonlocal waiting
            if not waiting:
                reporter.stage("the last trials run in other processes: waiting for them")
            waiting = True

        while True:
            reporter.trial(study.finished, trials, study.best_value)
            trial = study.next_trial(trials, on_wait)
            if trial is None:
                break
            setup = default if is_default(trial) else searched
            suggested = {name: space[name] for name in (known if is_default(trial) else space)}
            _run_trial(study, trial, setup, suggested, metric, reporter)
            study.write_trials(defaults, metric)
        if waiting:
            reporter.trial(study.finished, trials, study.best_value)
        study.write_trials(defaults, metric)
        return _finish(folder, study, default, searched, defaults, metric)


@dataclass(frozen=True)
class _TrialSetup:
    """What trials share: the settings that are not searched, and the data set."""

    config: RunConfig
    dataset: PreparedDataset

    def resolved(self, values: dict[str, Any]) -> RunConfig:
        """All settings of a trial, as `molattn train` resolves them."""
        dataset = self.dataset
        config = with_settings(self.config, values, "search")
        return resolve_initialization(config, dataset.task.atom_level, len(dataset.indices("train")))[0]


def _trial_setup(config: RunConfig, reporter: TuneReporter) -> _TrialSetup:
    dataset = prepare_run(config, reporter.molecules)
    return _TrialSetup(replace(config, data=dataset.config), dataset)


def _prepare_trials(
    config: RunConfig, search: Sequence[str], reporter: TuneReporter
) -> tuple[_TrialSetup, _TrialSetup, Space]:
    """The setup of the default trial, that of the other trials, and the search space."""
    reporter.stage("reading molecules")
    default = _trial_setup(config, reporter)
    for warning in default.dataset.warnings:
        reporter.warning(warning)
    dataset = default.dataset
    resolved, message = resolve_initialization(default.config, dataset.task.atom_level, len(dataset.indices("train")))
    space = search_space(search, resolved)
    reporter.stage(message or "training starts from scratch")
    base, fixed = resolved.training.base, [name for name in space if fixed_by_base(name)]
    if base == NO_BASE or not fixed:
        return default, default, space
    if config.training.base != AUTO_BASE:
        raise UsageError(
            f"--search {fixed[0]}: the base model {base} fixes this setting: leave it out, or give --base {NO_BASE}"
        )
    reporter.stage(
        f"all trials but the first, the default, train from scratch: the base model {base} fixes {', '.join(fixed)}"
    )
    return default, _trial_setup(config.updated({"training": {"base": NO_BASE}}, "search"), reporter), space


def _run_trial(
    study: SharedStudy,
    trial: "optuna.Trial",
    setup: _TrialSetup,
    space: Space,
    metric: str,
    reporter: TuneReporter,
) -> None:
    """Run a trial with values from `space`, and report its result to the study."""
    import optuna

    pruned = optuna.trial.TrialState.PRUNED
    try:
        values = {name: _suggest(trial, name, candidates) for name, candidates in space.items()}
        config = setup.resolved({} if is_default(trial) else values)
        value = _objective(config, setup.dataset, metric, trial, reporter)
    except optuna.TrialPruned:
        study.study.tell(trial, state=pruned)
    except (UsageError, InputError) as error:
        # Incompatible settings, or a training without a model: finished, without a value.
        trial.set_user_attr("error", str(error))
        study.study.tell(trial, state=pruned)
        reporter.warning(f"trial {trial.number}: {error}")
    else:
        study.study.tell(trial, value)


def _finish(
    folder: Path, study: SharedStudy, default: _TrialSetup, searched: _TrialSetup, defaults: dict[str, Any], metric: str
) -> TuneResult:
    """Write `best.toml`: the given settings, the base model, and the searched values of the best trial."""
    best, first, done = study.best_trial, study.default_trial, study.finished
    if best is None:
        raise InputError(f"none of the {done} trials had a model with a defined metric: see {folder / TRIALS}")
    assert best.value is not None
    setup, values = (default, {}) if is_default(best) else (searched, {name: best.params[name] for name in defaults})
    resolved = setup.resolved(values)
    given = with_settings(setup.config, {**values, "training.base": resolved.training.base}, "search")
    label = METRICS[metric].label
    if is_default(best):
        text = f"# The default settings: no trial of {done} had a better validation {label} than {best.value:.6g}.\n"
    else:
        default_text = "" if first is None else f"; with the default settings it is {first.value:.6g}"
        text = f"# The best of {done} trials, by the validation {label}: {best.value:.6g}{default_text}.\n"
    with study_lock(folder):
        write_text(folder / BEST_CONFIG, text + tomli_w.dumps(given.explicit_settings()))
    default_value = None if first is None else first.value
    searched_values, is_first = values or defaults, is_default(best)
    return TuneResult(
        folder, resolved, searched_values, metric, best.value, done, best.number, defaults, default_value, is_first
    )


class _PruneTrial(Callback):
    """Reports the best value so far to a trial, and raises TrialPruned where its study does; never the default trial.

    Attributes:
        best: the metric of the validation molecules at the best epoch, NaN before there is one.
    """

    def __init__(self, trial: "optuna.Trial"):
        self.trial, self.best = trial, math.nan

    def on_epoch_end(self, learner: Learner, record: EpochRecord) -> None:  # noqa: ARG002
        import optuna

        if record.best:
            self.best = record.val_metric
        if math.isfinite(self.best):
            self.trial.report(self.best, record.epoch)
            if self.trial.should_prune() and not is_default(self.trial):
                raise optuna.TrialPruned


def _objective(
    config: RunConfig,
    dataset: PreparedDataset,
    metric: str,
    trial: "optuna.Trial",
    reporter: TuneReporter,
) -> float:
    """The value of a trial: the metric of the validation molecules at the best epoch."""
    check_config(config)
    single = replace(config, training=replace(config.training, ensemble_size=1))
    task = dataset.task
    train, val = dataset.subset("train"), dataset.subset("val")
    scaler = replace(task.fit_scaler(train.targets), transforms=dataset.transforms)
    # Raises an error for incompatible settings.
    initialize_model(single, len(task.target_of_output(len(scaler.mean))), task.atom_level)
    pruning = _PruneTrial(trial)
    report = ReportEpochs(reporter.epoch, config.training.epochs)
    fit_ensemble(single, task, scaler, train, val, metric, [report, pruning])
    best = pruning.best
    if not math.isfinite(best):
        raise InputError(
            f"the {METRICS[metric].label} of the validation molecules is undefined: choose another --metric"
        )
    return best


def _suggest(trial: "optuna.Trial", name: str, candidates: Categorical | NumericRange) -> Any:
    if isinstance(candidates, Categorical):
        return trial.suggest_categorical(name, candidates.values)
    if candidates.is_integer:
        return trial.suggest_int(name, int(candidates.low), int(candidates.high), log=candidates.log)
    return trial.suggest_float(name, candidates.low, candidates.high, log=candidates.log)


def _pruner(name: str, epochs: int) -> "optuna.pruners.BasePruner":
    import optuna

    if name == "median":
        # Never prune the first few trials, to which the others are compared, nor the first few epochs.
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(1, epochs // 10))
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=max(1, epochs // 10), max_resource=epochs)
    return optuna.pruners.NopPruner()
