"""An Optuna study in a folder: several processes may work on it at once, and interruptions do not damage it."""

import csv
import io
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from filelock import FileLock, Timeout

from molattn.data.files import write_text
from molattn.data.locks import is_empty_folder
from molattn.errors import InputError, UsageError
from molattn.training.run_config import RunConfig, read_config, resolve
from molattn.training.run_status import STUDY_CONFIG, STUDY_JOURNAL, check_folder_name

if TYPE_CHECKING:
    import optuna

TRIALS = "trials.csv"
NUM_TRIALS = "num_trials"
POLLING_INTERVAL = 1.0
"""Seconds between two checks of an idle process whether the trials of other processes are finished."""

_DEFAULT, _PROCESS = "default", "process"  # user attributes of a trial


@dataclass(frozen=True)
class StudySettings:
    """The settings of a study: those that are not searched, the search space, the pruner and the number of trials."""

    config: RunConfig
    search: list[str]
    pruner: str
    num_trials: int


def read_study(folder: Path) -> StudySettings:
    """The settings of the study in `folder`.

    Raises:
        UsageError: it is not a study, or its settings are damaged.
    """
    path = folder / STUDY_CONFIG
    if not path.is_file():
        raise UsageError(f"{folder} is not a study of molattn tune, it has no {path.name}: there is nothing to resume")
    settings = read_config(path)
    if missing := [name for name in ("search", "pruner", NUM_TRIALS) if name not in settings]:
        raise UsageError(f"{path} is damaged, it has no {missing[0]!r}: start a new study")
    search, pruner, num_trials = (settings.pop(name) for name in ("search", "pruner", NUM_TRIALS))
    if type(num_trials) is not int:
        raise UsageError(f"{path} is damaged, {NUM_TRIALS} is not a number: start a new study")
    return StudySettings(resolve(settings, {}), search, pruner, num_trials)


def create_study(folder: Path, settings: dict[str, Any], num_trials: int) -> None:
    """Write the settings of a new study; UsageError if the folder is not empty."""
    check_folder_name(folder)
    if (folder / STUDY_CONFIG).is_file():
        raise UsageError(f"{folder} holds a study: --resume {folder} continues it, or give another --output-dir")
    if not is_empty_folder(folder):
        raise UsageError(f"{folder} exists: give another --output-dir")
    write_text(folder / STUDY_CONFIG, tomli_w.dumps({NUM_TRIALS: num_trials, **settings}))


def check_study(folder: Path, settings: dict[str, Any], num_trials: int) -> None:
    """Raise UsageError unless the study in `folder` has these settings; the number of trials is replaced."""
    study, path = read_study(folder), folder / STUDY_CONFIG
    before, now = read_config(path), json.loads(json.dumps(settings))
    del before[NUM_TRIALS]
    for part in (before, now):
        if isinstance(part.get("training"), dict):
            part["training"].pop("num_workers", None)
    changed = [name for name in dict.fromkeys((*now, *before)) if (before.get(name) or ()) != (now.get(name) or ())]
    if changed:
        raise UsageError(f"{folder} was started with other settings of {', '.join(changed)}: restore them")
    if num_trials != study.num_trials:
        with study_lock(folder):
            write_text(path, tomli_w.dumps({**read_config(path), NUM_TRIALS: num_trials}))


def remove_study(folder: Path) -> None:
    """Remove the settings of a study that did not start, and its folder if nothing else is in it."""
    (folder / STUDY_CONFIG).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


class SharedStudy:
    """The trials of a study. One of them, the default trial, has the given settings unchanged.

    Each process holds a lock file while it runs, and its trials store the name of the lock. A trial in the state
    RUNNING whose lock is free was interrupted: it is marked as failed, and its settings are enqueued again.

    Args:
        folder: of the study.
        study: Optuna's.
        seed: of the sampler; the number of started trials is added, so that processes suggest different settings.
    """

    def __init__(self, folder: Path, study: "optuna.Study", seed: int):
        self.folder, self.study, self.seed = folder, study, seed
        self.process = secrets.token_hex(4)

    def next_trial(self, total: int, on_wait: Callable[[], None]) -> "optuna.Trial | None":
        """A new trial; None once `total` are finished. Waits while other processes run the last of them.

        Args:
            total: the number of trials, including pruned ones.
            on_wait: called before each wait.
        """
        import optuna

        while True:
            with study_lock(self.folder):
                self._recover()
                trials = self.study.get_trials(deepcopy=False)
                running = sum(t.state.name == "RUNNING" for t in trials)
                if self.finished >= total:
                    return None
                if self.finished + running < total:
                    started = sum(t.state.name != "WAITING" for t in trials)
                    self.study.sampler = optuna.samplers.TPESampler(seed=self.seed + started, n_startup_trials=5)
                    trial = self.study.ask()
                    trial.set_user_attr(_PROCESS, self.process)
                    return trial
            on_wait()
            time.sleep(POLLING_INTERVAL)

    def _recover(self) -> None:
        """Mark the running trials of ended processes as failed, and enqueue their settings again."""
        import optuna

        for trial in self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            process = trial.user_attrs.get(_PROCESS, "")
            if process != self.process and not _is_alive(self.folder, process):
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                self.study.enqueue_trial(trial.params, user_attrs={_DEFAULT: True} if is_default(trial) else {})

    @property
    def finished(self) -> int:
        """The number of finished trials, including pruned ones."""
        return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in self.study.get_trials(deepcopy=False))

    @property
    def default_trial(self) -> "optuna.trial.FrozenTrial | None":
        """The default trial, if it has a value."""
        trials = self.study.get_trials(deepcopy=False)
        return next((t for t in trials if t.state.name == "COMPLETE" and is_default(t)), None)

    @property
    def best_trial(self) -> "optuna.trial.FrozenTrial | None":
        """The best trial, in a tie the default one; None if no trial has a value."""
        import optuna

        if not any(trial.state.name == "COMPLETE" for trial in self.study.get_trials(deepcopy=False)):
            return None
        best, default = self.study.best_trial, self.default_trial
        if default is None:
            return best
        larger = self.study.direction is optuna.study.StudyDirection.MAXIMIZE
        assert best.value is not None and default.value is not None
        return best if (best.value > default.value if larger else best.value < default.value) else default

    @property
    def best_value(self) -> float | None:
        """The value of the best trial."""
        best = self.best_trial
        return None if best is None else best.value

    def write_trials(self, defaults: Mapping[str, Any], metric: str) -> None:
        """Write `trials.csv`: a line for each trial, with its settings, value and state.

        Args:
            defaults: the searched settings, and their values in the default trial.
            metric: the metric that is the value of a trial.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["trial", "state", f"val_{metric}", "epochs", *defaults, "is_default", "error"])
        with study_lock(self.folder):
            for trial in self.study.get_trials(deepcopy=False):
                values = trial.intermediate_values
                last = trial.value if trial.value is not None else values[max(values)] if values else ""
                default = is_default(trial)
                params = defaults if default else trial.params
                row = [
                    trial.number,
                    trial.state.name.lower(),
                    last,
                    len(values),
                    *(params.get(n, "") for n in defaults),
                ]
                writer.writerow([*row, "yes" if default else "no", trial.user_attrs.get("error", "")])
            write_text(self.folder / TRIALS, text.getvalue())


def is_default(trial: "optuna.Trial | optuna.trial.FrozenTrial") -> bool:
    """Whether a trial is the default trial."""
    return bool(trial.user_attrs.get(_DEFAULT))


@contextmanager
def open_study(
    folder: Path,
    larger_is_better: bool,
    pruner: "optuna.pruners.BasePruner",
    seed: int,
    default: Mapping[str, Any],
) -> Iterator[SharedStudy]:
    """The study in `folder`; created, with the default as its first trial, if there is none.

    Args:
        folder: of the study.
        larger_is_better: whether the metric is maximized.
        pruner: which ends poor trials early.
        seed: of the sampler.
        default: the values of the default trial that are in the search space, by setting.

    Raises:
        InputError: the file of the trials is damaged.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    journal = str(folder / STUDY_JOURNAL)
    try:
        with study_lock(folder):
            study = optuna.create_study(
                # By default its lock is a symbolic link, for which Windows needs a privilege.
                storage=JournalStorage(JournalFileBackend(journal, JournalFileOpenLock(journal))),
                study_name="molattn",
                direction="maximize" if larger_is_better else "minimize",
                load_if_exists=True,
                pruner=pruner,
            )
            if not study.get_trials(deepcopy=False):
                study.enqueue_trial(dict(default), user_attrs={_DEFAULT: True})
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise InputError(
            f"{folder / STUDY_JOURNAL} is damaged, its trials cannot be read ({type(error).__name__}): start a new "
            "study with another --output-dir"
        ) from error
    shared = SharedStudy(folder, study, seed)
    path = _process_lock(folder, shared.process)
    try:
        with FileLock(path):
            yield shared
    finally:
        path.unlink(missing_ok=True)


def study_lock(folder: Path) -> FileLock:
    """The lock that a process holds while it reads and changes the state of the study."""
    return FileLock(folder / ".study.lock")


def _process_lock(folder: Path, process: str) -> Path:
    return folder / f".process-{process}.lock"


def _is_alive(folder: Path, process: str) -> bool:
    """Whether the process with this name runs."""
    path = _process_lock(folder, process)
    if not process or not path.is_file():
        return False
    try:
        with FileLock(path, timeout=0):
            pass
    except Timeout:
        return True
    path.unlink(missing_ok=True)
    return False
