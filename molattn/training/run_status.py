"""The names of files in a run folder, and whether a run is finished. Importing this module does not import torch."""

from pathlib import Path

from molattn.errors import InputError, UsageError

CONFIG_FILE, METRICS_FILE, MODEL_FOLDER, CHECKPOINT_FOLDER = "config.toml", "metrics.json", "model", "checkpoint"
SPLITS_FILE = "splits.csv"
STUDY_CONFIG, STUDY_JOURNAL, BEST_CONFIG = "tune.toml", "study.jsonl", "best.toml"
"""In the folder of `molattn tune`: its settings, Optuna's journal of its trials, and the best settings."""


def model_folder(run: Path) -> Path:
    """The folder of a run's model: `model` in it, or the folder itself for a model that was saved alone."""
    return run / MODEL_FOLDER if (run / MODEL_FOLDER).is_dir() else run


def run_of_model(model: Path) -> Path:
    """The folder of the run of a model folder, the inverse of `model_folder`."""
    return model.parent if model.name == MODEL_FOLDER else model


def is_unfinished(folder: Path) -> bool:
    """Whether the folder holds a run that is not finished: its metrics are the last file that it writes."""
    return (folder / CONFIG_FILE).is_file() and not (folder / METRICS_FILE).is_file()


def resume_hint(folder: Path) -> str:
    """A message on how to resume an unfinished run."""
    return f"{folder} holds an unfinished run: --resume {folder} continues it"


def check_resume(resume: bool, folder: str | Path | None) -> None:
    """Raise UsageError if a run is to be resumed and its folder is not given."""
    if resume and folder is None:
        raise UsageError("resume=True continues an unfinished run: give its folder")


def check_resumable(folder: Path) -> None:
    """Raise UsageError unless `folder` holds an unfinished run."""
    if not folder.is_dir():
        raise UsageError(f"there is no run {folder} to resume")
    if not (folder / CONFIG_FILE).is_file():
        raise UsageError(f"{folder} is not a run of molattn, it has no {CONFIG_FILE}: there is nothing to resume")
    if not is_unfinished(folder):
        raise UsageError(f"the run in {folder} is finished: there is nothing to resume")


def resolve_resume(run: str | Path, config: object, output_dir: object, force: bool) -> tuple[Path, Path]:
    """The settings file and the folder of the unfinished run `run`.

    Raises:
        UsageError: there is none, or an option that cannot be combined with `--resume`.
    """
    if config is not None or output_dir is not None or force:
        raise UsageError("a run that is resumed has its folder and settings: give no --config, --output-dir or --force")
    folder = Path(run)
    check_resumable(folder)
    return folder / CONFIG_FILE, folder


def check_folder_name(folder: Path) -> None:
    """Raise UsageError for "-", which is standard output elsewhere."""
    if str(folder) == "-":
        raise UsageError("- is standard output, and --output-dir is a folder: give its path")


def check_new_folder(folder: Path, force: bool) -> None:
    """Raise UsageError unless `folder` can hold a new run: it is missing or empty, or has a run and `force` is set."""
    check_folder_name(folder)
    if folder.is_file():
        raise UsageError(f"{folder} is a file: give another --output-dir")
    if not folder.is_dir():
        return
    from molattn.data.locks import is_empty_folder  # imported here, because molattn.data takes longer to import

    if not is_empty_folder(folder):
        if not force and is_unfinished(folder):
            raise UsageError(f"{resume_hint(folder)}, --force starts over")
        if not force:
            raise UsageError(f"{folder} exists: give another --output-dir, or --force to replace it")
        if not (folder / CONFIG_FILE).is_file():
            raise UsageError(f"{folder} exists and is not a run of molattn: --force replaces runs only")


def check_has_model(folder: Path) -> None:
    """Raise InputError for an unfinished run, or a folder of several runs with a model each."""
    if is_unfinished(folder):
        raise InputError(f"{folder} holds an unfinished run: molattn train --resume {folder} continues it")
    if (folder / CONFIG_FILE).is_file() and not (folder / MODEL_FOLDER).is_dir():
        runs = sorted(path.parent for path in folder.glob(f"*/{MODEL_FOLDER}"))
        if runs:
            raise InputError(f"{folder} holds {len(runs)} runs with a model each: give one of them, such as {runs[0]}")
