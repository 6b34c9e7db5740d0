"""The folder of a study of `molattn tune`: created, and compared with the settings given when it is resumed."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from molattn.data.files import write_text
from molattn.errors import UsageError
from molattn.training.config import RunConfig, read_config, resolve
from molattn.training.run_status import TUNED


def read_study(folder: Path) -> tuple[RunConfig, list[str], str]:
    """The settings, the search space and the pruner of the study in `folder`.

    Raises:
        UsageError: it is not a study, or its settings are damaged.
    """
    if not (folder / TUNED).is_file():
        raise UsageError(f"{folder} is not a study of molattn tune, it has no {TUNED}: there is nothing to resume")
    settings = read_config(folder / TUNED)
    if missing := [name for name in ("search", "pruner") if name not in settings]:
        raise UsageError(f"{folder / TUNED} is damaged, it has no {missing[0]!r}: start a new study")
    search, pruner = settings.pop("search"), settings.pop("pruner")
    return resolve(settings, {}), search, pruner


def create_study_folder(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings of a new study; UsageError if the folder holds anything."""
    if (folder / TUNED).is_file():
        raise UsageError(f"{folder} holds a study: --resume {folder} continues it, or give another --output-dir")
    if any(folder.iterdir()):
        raise UsageError(f"{folder} exists: give another --output-dir")
    write_text(folder / TUNED, tomli_w.dumps(settings))


def check_study_folder(folder: Path, settings: dict[str, Any]) -> None:
    """Raise UsageError unless the study in `folder` has these settings."""
    read_study(folder)
    before, now = read_config(folder / TUNED), json.loads(json.dumps(settings))
    for part in (before, now):
        if isinstance(part.get("training"), dict):
            part["training"].pop("num_workers", None)
    changed = [name for name in dict.fromkeys((*now, *before)) if (before.get(name) or ()) != (now.get(name) or ())]
    if changed:
        raise UsageError(f"{folder} was started with other settings of {', '.join(changed)}: restore them")


def remove_study_folder(folder: Path) -> None:
    """Remove the settings of a study that did not start, and its folder if nothing else is in it."""
    (folder / TUNED).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
