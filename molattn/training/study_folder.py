"""The folder of a study of `molattn tune`: created, and compared with the settings given when it is resumed."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from molattn.data.files import write_text
from molattn.errors import UsageError
from molattn.training.config import RunConfig, read_config, resolve
from molattn.training.run_status import TUNED
from molattn.training.study import study_lock

NUM_TRIALS = "num_trials"


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
    if not (folder / TUNED).is_file():
        raise UsageError(f"{folder} is not a study of molattn tune, it has no {TUNED}: there is nothing to resume")
    settings = read_config(folder / TUNED)
    if missing := [name for name in ("search", "pruner", NUM_TRIALS) if name not in settings]:
        raise UsageError(f"{folder / TUNED} is damaged, it has no {missing[0]!r}: start a new study")
    search, pruner, num_trials = (settings.pop(name) for name in ("search", "pruner", NUM_TRIALS))
    if type(num_trials) is not int:
        raise UsageError(f"{folder / TUNED} is damaged, {NUM_TRIALS} is not a number: start a new study")
    return StudySettings(resolve(settings, {}), search, pruner, num_trials)


def create_study_folder(folder: Path, settings: dict[str, Any], num_trials: int) -> None:
    """Write the settings of a new study; UsageError if the folder holds anything."""
    if (folder / TUNED).is_file():
        raise UsageError(f"{folder} holds a study: --resume {folder} continues it, or give another --output-dir")
    if any(folder.iterdir()):
        raise UsageError(f"{folder} exists: give another --output-dir")
    write_text(folder / TUNED, tomli_w.dumps({NUM_TRIALS: num_trials, **settings}))


def check_study_folder(folder: Path, settings: dict[str, Any], num_trials: int) -> None:
    """Raise UsageError unless the study in `folder` has these settings; the number of trials is replaced."""
    study = read_study(folder)
    before, now = read_config(folder / TUNED), json.loads(json.dumps(settings))
    del before[NUM_TRIALS]
    for part in (before, now):
        if isinstance(part.get("training"), dict):
            part["training"].pop("num_workers", None)
    changed = [name for name in dict.fromkeys((*now, *before)) if (before.get(name) or ()) != (now.get(name) or ())]
    if changed:
        raise UsageError(f"{folder} was started with other settings of {', '.join(changed)}: restore them")
    if num_trials != study.num_trials:
        with study_lock(folder):
            write_text(folder / TUNED, tomli_w.dumps({**read_config(folder / TUNED), NUM_TRIALS: num_trials}))


def remove_study_folder(folder: Path) -> None:
    """Remove the settings of a study that did not start, and its folder if nothing else is in it."""
    (folder / TUNED).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
