"""Hyper-parameter optimization with Optuna, by the metric of the validation molecules."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from molattn.data.files import write_text
from molattn.data.locks import lock_folder
from molattn.errors import InputError, MissingExtra, UsageError, unknown_choice
from molattn.training.initialization import resolve_initialization
from molattn.training.metrics import LOSSES, METRICS, check_tracking_metric, resolve_metrics
from molattn.training.reporter import TuneReporter
from molattn.training.run_config import RunConfig, check_config
from molattn.training.run_status import BEST_CONFIG
from molattn.training.search_space import search_space, value_of, with_settings
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
from molattn.training.trial import PRUNERS, TrialSetup, make_pruner, prepare_trials, run_trial

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
        default, searched, space = prepare_trials(config, search, reporter)
    except BaseException:
        if not resume:
            remove_study(folder)
        raise
    task, default_config = default.dataset.task, default.resolved({})
    names = resolve_metrics(task.kind, task.metrics, config.training.metrics)
    tracked = config.training.tracking_metric
    check_tracking_metric(task.kind, names, tracked)
    # Losses of trials with different settings cannot be compared.
    metric = names[0] if tracked in LOSSES else tracked
    defaults = {name: value_of(default_config, name) for name in space}
    # The sampler learns from the default trial, unless the other trials start from another initialization.
    in_space = {name: value for name, value in defaults.items() if searched is default and space[name].contains(value)}
    optuna_pruner = make_pruner(pruner, default_config.training.epochs)
    with open_study(folder, METRICS[metric].larger_is_better, optuna_pruner, config.training.seed, in_space) as study:
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
            suggested = {name: space[name] for name in (in_space if is_default(trial) else space)}
            run_trial(study, trial, setup, suggested, metric, reporter)
            study.write_trials(defaults, metric)
        if waiting:
            reporter.trial(study.finished, trials, study.best_value)
        study.write_trials(defaults, metric)
        return _finish(folder, study, default, searched, defaults, metric)


def _finish(
    folder: Path, study: SharedStudy, default: TrialSetup, searched: TrialSetup, defaults: dict[str, Any], metric: str
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
    return TuneResult(
        folder=folder,
        config=resolved,
        values=values or defaults,
        metric=metric,
        value=best.value,
        trials=done,
        number=best.number,
        default_values=defaults,
        default_value=None if first is None else first.value,
        is_default=is_default(best),
    )
