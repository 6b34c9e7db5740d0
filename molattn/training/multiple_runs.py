"""Multiple runs: the folds of a cross-validation and replicates with other seeds, with the mean and std of metrics."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from molattn.data.files import write_text
from molattn.data.schema import InstanceOf, PartialRecord, Schema, String, parse_json
from molattn.data.tables.units import find_without_unit
from molattn.errors import InputError, UsageError
from molattn.training import distributed, run_folder
from molattn.training.bases import FINE_TUNING, FINE_TUNING_MANY, FROM_SCRATCH
from molattn.training.callbacks import Callback
from molattn.training.reporter import Reporter, SilentReporter
from molattn.training.run import run
from molattn.training.run_config import RunConfig, check_config, read_config
from molattn.training.run_status import CONFIG_FILE, METRICS_FILE, check_resume, is_unfinished, resume_hint
from molattn.training.setting_differences import differences
from molattn.training.table_source import find_table
from molattn.training.train_and_evaluate import RunResult


@dataclass(frozen=True)
class MultipleRunsResult:
    """The result of multiple runs.

    Attributes:
        folder: of all runs, with a subfolder for each.
        metrics: the content of its `metrics.json`: as that of a single run, with {"mean", "std", "values"} for numbers.
        runs: the metrics of each run, by the name of its folder.
        descriptor_columns: the columns of extra descriptors.
    """

    folder: Path
    metrics: dict[str, Any]
    runs: dict[str, dict[str, Any]]
    descriptor_columns: tuple[str, ...] = ()


def planned_runs(config: RunConfig) -> dict[str, RunConfig]:
    """The settings of each run that `config` requests, by the name of its folder; empty for a single run.

    Replicates have the seed of `config` and the next ones; each fold tests one part of the molecules. With both, all
    folds are run for every seed.
    """
    data, training = config.data, config.training
    seeds, folds = range(training.num_replicates), range(data.num_folds if data.fold < 0 else 1)
    found = {}
    for i in seeds:
        for fold in folds:
            names = [f"replicate_{i}"] * (len(seeds) > 1) + [f"fold_{fold}"] * (len(folds) > 1)
            found["_".join(names)] = replace(
                config,
                data=replace(data, fold=fold) if len(folds) > 1 else data,
                training=replace(training, seed=training.seed + i, num_replicates=1),
            )
    return found if len(found) > 1 else {}


def run_multiple(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool = False,
    resume: bool = False,
    finish: Callable[[RunResult], None] = lambda _: None,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Any] = (),
) -> MultipleRunsResult:
    """Run all runs that `config` requests in turn, and write `metrics.json` with means and standard deviations.

    Each run has a run folder of its own within `folder`. After an interruption the finished runs are kept, and the
    others can be resumed.

    Args:
        config, folder, reporter, force, resume, finish, callbacks, loggers: as for `run`.

    Raises:
        UsageError, InputError: as `run` does.
    """
    check_config(config)
    check_resume(resume, folder)
    runs = planned_runs(config)

    def open_folder() -> Path:
        if resume and folder is not None:
            path = run_folder.reopen(locks, folder)
            _check_settings(path, config)
            return path
        path = run_folder.create(locks, folder, Path(config.data.dataset).stem, force)
        _write_config(path, config)
        return path

    with distributed.process_group(config.training), ExitStack() as locks:
        reporter = reporter if distributed.is_main_process() else SilentReporter()
        path = distributed.broadcast_object(open_folder)
        return _run_each(config, runs, path, reporter, finish, callbacks, loggers, folder is None)


def _run_each(
    config: RunConfig,
    runs: dict[str, RunConfig],
    path: Path,
    reporter: Reporter,
    finish: Callable[[RunResult], None],
    callbacks: Sequence[Callback],
    loggers: Sequence[Any],
    is_default_folder: bool,
) -> MultipleRunsResult:
    """Train each run in its subfolder of `path`.

    After an error before the first run has started, remove `path`; see `run_folder.remove`.
    """

    def is_pending(name: str) -> bool:
        """Whether a run is not finished; called on rank 0, which writes the files."""
        if (path / name / METRICS_FILE).is_file():
            return False
        _check_table(path, runs)
        return True

    try:
        for number, (name, single) in enumerate(runs.items(), start=1):
            if distributed.broadcast_object(partial(is_pending, name)):
                reporter.stage(f"{name}, {number} of {len(runs)}")
                resumed = distributed.broadcast_object(partial(is_unfinished, path / name))
                run(single, path / name, reporter, False, resumed, callbacks, loggers, finish)
    except BaseException as error:
        if any((path / name).is_dir() for name in runs) or not distributed.is_main_process():
            if not isinstance(error, UsageError | InputError):
                reporter.stage(resume_hint(path))
            raise
        run_folder.remove(path, is_default_folder)
        raise
    metrics = distributed.broadcast_object(partial(_read_metrics, path, runs))
    overall = {"runs": list(metrics), **aggregate(list(metrics.values()))}
    if distributed.is_main_process():
        run_folder.write_json(path / METRICS_FILE, overall)
    return MultipleRunsResult(path, overall, metrics, config.data.descriptor_columns)


def _read_metrics(path: Path, runs: Iterable[str]) -> dict[str, dict[str, Any]]:
    return {name: _read_run_file(path / name / METRICS_FILE, _METRICS_SCHEMA) for name in runs}


_METRICS_SCHEMA: Schema = PartialRecord(
    {split: InstanceOf(dict, "an object with targets") for split in ("train", "val", "test")}
)
_ENVIRONMENT_SCHEMA: Schema = PartialRecord({"data_sha256": String(64)})


def _read_run_file(path: Path, schema: Schema) -> dict[str, Any]:
    """The content of a JSON file of a finished run, validated by `schema`.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        content = parse_json(path.read_bytes())
        schema.validate(content, "")
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"{path} is damaged, it cannot be read ({why}): remove {path.parent}, and --resume trains it again"
        ) from error
    return content


def aggregate(values: list[Any]) -> Any:
    """Aggregate the nested values of several runs: numbers become their mean, standard deviation and all values.

    The standard deviation is that of a sample, over n - 1. If a run has no number, both are None. Other values remain
    as they are if they are equal in all runs, and become a list otherwise.

    >>> aggregate([{"rmse": 1.0, "unit": "eV"}, {"rmse": 3.0, "unit": "eV"}])["rmse"]
    {'mean': 2.0, 'std': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    if all(isinstance(value, dict) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: aggregate([value.get(key) for value in values]) for key in keys}
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    if numbers and all(v is None or v in numbers for v in values):
        complete = len(numbers) == len(values)
        return {
            "mean": statistics.fmean(numbers) if complete else None,
            "std": statistics.stdev(numbers) if complete else None,
            "values": values,
        }
    return values[0] if all(value == values[0] for value in values) else values


# Settings that a run resolves from its data, unless they are explicit.
_DATA_DEPENDENT = {("training", "base"), ("training", "distillation")} | {
    (section, name)
    for defaults in (FINE_TUNING, FINE_TUNING_MANY, FROM_SCRATCH)
    for section, values in defaults.items()
    for name in values
}


def _write_config(path: Path, config: RunConfig) -> None:
    """Write the common settings of all runs; settings that depend on the data are in the folder of each run."""
    settings = config.to_dict()
    for section, name in _DATA_DEPENDENT:
        if f"{section}.{name}" not in config.explicit_keys:
            settings[section].pop(name, None)  # some kinds of models do not have it
    write_text(path / CONFIG_FILE, tomli_w.dumps(settings))


def _check_settings(path: Path, config: RunConfig) -> None:
    """Raise UsageError if `config` differs from the settings that the runs in `path` were started with."""
    runs = planned_runs(config)
    for directory, name in ((path, ""), *((path / name, name) for name in runs)):
        if not (directory / CONFIG_FILE).is_file():
            continue
        before = RunConfig().updated(read_config(directory / CONFIG_FILE), str(directory / CONFIG_FILE)).to_dict()
        now = (runs[name] if name else config).to_dict()
        for column in ("smiles_column", "target_columns", "task_type"):
            # Each run finds them in the table.
            if not now["data"][column]:
                now["data"][column] = before["data"][column]
        found = before["data"]["target_columns"]
        now["data"]["target_columns"] = [find_without_unit(found, target) for target in now["data"]["target_columns"]]
        for section, name in _DATA_DEPENDENT:
            if f"{section}.{name}" not in config.explicit_keys and name in before[section]:
                now[section][name] = before[section][name]
        for name in ("num_workers", "logger"):
            del before["training"][name], now["training"][name]
        if changed := differences(before, now):
            raise UsageError(
                f"{path} cannot be resumed, since {'; '.join(changed)}: undo the change, or start over with --force"
            )


def _check_table(path: Path, runs: dict[str, RunConfig]) -> None:
    """Raise InputError if the table has changed since a run was finished."""
    finished = [name for name in runs if (path / name / METRICS_FILE).is_file()]
    sha256 = find_table(runs[finished[0]].data).sha256 if finished else ""  # the table is that of all runs
    for name in finished:
        env = _read_run_file(path / name / "env.json", _ENVIRONMENT_SCHEMA)
        if env["data_sha256"] != sha256:
            raise InputError(f"the table has changed since {path / name}: restore it, or start over with --force")
