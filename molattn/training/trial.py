"""A trial of a hyper-parameter optimization: its settings, its training, and its value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from molattn.errors import InputError, UsageError
from molattn.training.bases import AUTO_BASE, NO_BASE, fixed_by_base
from molattn.training.callbacks import Callback, ReportEpochs
from molattn.training.dataset import PreparedDataset
from molattn.training.distillation import resolve_for_dataset
from molattn.training.early_stopping import EpochRecord
from molattn.training.ensemble import fit_ensemble
from molattn.training.initialization import initialize_model
from molattn.training.learner import Learner
from molattn.training.metrics import METRICS
from molattn.training.prepare import prepare_run
from molattn.training.reporter import TuneReporter
from molattn.training.run_config import RunConfig, check_config
from molattn.training.search_space import Categorical, NumericRange, Space, search_space, with_settings
from molattn.training.study import SharedStudy, is_default
from molattn.training.task_weights import task_weights
from molattn.training.transforms import describe_recognized

if TYPE_CHECKING:
    import optuna

PRUNERS = ("median", "hyperband", "none")


@dataclass(frozen=True)
class TrialSetup:
    """What trials share: the settings that are not searched, and the data set."""

    config: RunConfig
    dataset: PreparedDataset

    def resolved(self, values: dict[str, Any]) -> RunConfig:
        """All settings of a trial, as `molattn train` resolves them."""
        config = with_settings(self.config, values, "search")
        return resolve_for_dataset(config, self.dataset)[0]


def _trial_setup(config: RunConfig, reporter: TuneReporter) -> TrialSetup:
    dataset = prepare_run(config, reporter.molecules)
    return TrialSetup(replace(config, data=dataset.config), dataset)


def prepare_trials(
    config: RunConfig, search: Sequence[str], reporter: TuneReporter
) -> tuple[TrialSetup, TrialSetup, Space]:
    """The setup of the default trial, that of the other trials, and the search space."""
    reporter.stage("reading molecules")
    default = _trial_setup(config, reporter)
    for warning in default.dataset.warnings:
        reporter.warning(warning)
    dataset = default.dataset
    for message in describe_recognized(dataset.transform_reasons):
        reporter.stage(message)
    resolved, message = resolve_for_dataset(default.config, dataset)
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


def run_trial(
    study: SharedStudy,
    trial: "optuna.Trial",
    setup: TrialSetup,
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
    scaler = task.fit_scaler(train.targets, dataset.transforms)
    # Raises an error for incompatible settings.
    initialize_model(single, task.num_outputs(len(scaler.mean)), task.atom_level)
    pruning = _PruneTrial(trial)
    report = ReportEpochs(reporter.epoch)
    weights = task_weights(config.training.task_weights, dataset.config.target_columns)
    fit_ensemble(
        single, task, scaler, train, val, metric, [report, pruning], task_weights=weights, report_teacher=reporter.epoch
    )
    if not math.isfinite(pruning.best):
        raise InputError(
            f"the {METRICS[metric].label} of the validation molecules is undefined: choose another --metric"
        )
    return pruning.best


def _suggest(trial: "optuna.Trial", name: str, candidates: Categorical | NumericRange) -> Any:
    if isinstance(candidates, Categorical):
        return trial.suggest_categorical(name, candidates.values)
    if candidates.is_integer:
        return trial.suggest_int(name, int(candidates.low), int(candidates.high), log=candidates.log)
    return trial.suggest_float(name, candidates.low, candidates.high, log=candidates.log)


def make_pruner(name: str, epochs: int) -> "optuna.pruners.BasePruner":
    """The pruner with this name, one of `PRUNERS`, for trainings of so many epochs."""
    import optuna

    if name == "median":
        # Never prune the first few trials, to which the others are compared, nor the first few epochs.
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(1, epochs // 10))
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=max(1, epochs // 10), max_resource=epochs)
    return optuna.pruners.NopPruner()
