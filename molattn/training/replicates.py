"""Several runs of one kind: the folds of a cross-validation, replicates with other seeds; mean and spread of both."""

import math
import shutil
import statistics
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from molattn.data.files import write_text
from molattn.errors import InputError, UsageError
from molattn.training import distributed, kept, run_folder
from molattn.training.bases import FINE_TUNING, FINE_TUNING_MANY, FROM_SCRATCH
from molattn.training.checkpoint import differences
from molattn.training.config import RunConfig, read_config
from molattn.training.folders import CONFIG, METRICS, continues, is_unfinished
from molattn.training.kept import read_kept
from molattn.training.run import Reporter, RunResult, Silent, check, run
from molattn.training.table_source import find_table


@dataclass(frozen=True)
class SeveralResult:
    """What several runs brought.

    Attributes:
        folder: where they lie, each in a folder of its own.
        metrics: what `metrics.json` there holds: those of a single run, with {"mean", "std", "values"} for a number.
        runs: the metrics of each run, by the name of its folder.
        descriptors: the columns that the models read beside each molecule.
    """

    folder: Path
    metrics: dict[str, Any]
    runs: dict[str, dict[str, Any]]
    descriptors: tuple[str, ...] = ()


def members(config: RunConfig) -> dict[str, RunConfig]:
    """The runs that `config` asks for, by the name of their folder; empty where it is a single run.

    Replicates have the seed of `config` and the next ones; folds test one part of the molecules each. Both together
    are all folds of every seed.
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


def run_several(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool = False,
    resume: bool = False,
    finish: Callable[[RunResult], None] = lambda _: None,
) -> SeveralResult:
    """All runs that `config` asks for, one after the other, and over them `metrics.json` with mean and deviation.

    Each run has a whole folder of its own within `folder`. What stops half-way keeps the runs that are finished, and
    with `resume` goes on.

    Args:
        finish: called after each run.

    Raises:
        UsageError, InputError: as `run` does.
    """
    check(config)
    with distributed.process_group(config.training):
        return _run_several(
            config, folder, reporter if distributed.is_main_process() else Silent(), force, resume, finish
        )


def _run_several(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool,
    resume: bool,
    finish: Callable[[RunResult], None],
) -> SeveralResult:
    runs = members(config)

    def begun() -> Path:
        if resume and folder is not None:
            path = run_folder.reopen(held, folder)
            _check_settings(path, config)
            return path
        path = run_folder.claim(held, folder, Path(config.data.dataset).stem, force)
        _write_config(path, config)
        return path

    with ExitStack() as held:
        path = distributed.broadcast_object(begun)
        return _each(config, runs, path, reporter, finish, folder is None)


def _each(
    config: RunConfig,
    runs: dict[str, RunConfig],
    path: Path,
    reporter: Reporter,
    finish: Callable[[RunResult], None],
    named: bool,
) -> SeveralResult:
    """Each of the runs in its folder in `path`; where none came to be, that is removed, and runs/ if `named` there."""

    def left_open(name: str) -> bool:
        """Whether a run is to be begun, or goes on; on the first rank, which alone writes there."""
        if (path / name / METRICS).is_file():
            return False
        _check_table(path, runs)
        return True

    try:
        for number, (name, member) in enumerate(runs.items(), start=1):
            if distributed.broadcast_object(partial(left_open, name)):
                reporter.stage(f"{name}, {number} of {len(runs)}")
                goes_on = distributed.broadcast_object(partial(is_unfinished, path / name))
                result = run(member, path / name, reporter, resume=goes_on)
                if distributed.is_main_process():
                    finish(result)
    except BaseException as error:
        if any((path / name).is_dir() for name in runs) or not distributed.is_main_process():
            if not isinstance(error, UsageError | InputError):
                reporter.stage(continues(path))
            raise
        shutil.rmtree(path, ignore_errors=True)
        if named:
            with suppress(OSError):
                path.parent.rmdir()
        raise
    metrics = distributed.broadcast_object(partial(_metrics_of, path, runs))
    over_all = {"runs": list(metrics), **summarised(list(metrics.values()))}
    if distributed.is_main_process():
        run_folder.write_json(path / METRICS, over_all)
    return SeveralResult(path, over_all, metrics, config.data.descriptor_columns)


def _metrics_of(path: Path, runs: Iterable[str]) -> dict[str, dict[str, Any]]:
    return {name: read_kept(path / name / METRICS, kept.METRICS) for name in runs}


def summarised(values: list[Any]) -> Any:
    """The same nested values of several runs as one: numbers as mean, standard deviation and all values.

    The standard deviation is that of a sample, over n - 1. Where a run has no number, mean and deviation are null.
    What is not a number stays what it is where all runs say the same, and is a list where they do not.

    >>> summarised([{"rmse": 1.0, "unit": "eV"}, {"rmse": 3.0, "unit": "eV"}])["rmse"]
    {'mean': 2.0, 'std': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    if all(isinstance(value, dict) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: summarised([value.get(key) for value in values]) for key in keys}
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    if numbers and all(v is None or v in numbers for v in values):
        whole = len(numbers) == len(values)
        return {
            "mean": statistics.fmean(numbers) if whole else None,
            "std": statistics.stdev(numbers) if whole else None,
            "values": values,
        }
    return values[0] if all(value == values[0] for value in values) else values


# Settings that a run decides by its data, where nobody said them.
_DATA_DEPENDENT = {("training", "base")} | {
    (section, name)
    for recipe in (FINE_TUNING, FINE_TUNING_MANY, FROM_SCRATCH)
    for section, values in recipe.items()
    for name in values
}


def _write_config(path: Path, config: RunConfig) -> None:
    """The settings of all runs; what each decides for itself stands in its own."""
    settings = config.to_dict()
    for section, name in _DATA_DEPENDENT:
        if f"{section}.{name}" not in config.explicit_keys:
            settings[section].pop(name, None)  # not every kind of model has it
    write_text(path / CONFIG, tomli_w.dumps(settings))


def _check_settings(path: Path, config: RunConfig) -> None:
    """UsageError where `config` is not what the runs in `path` were begun with."""
    runs = members(config)
    for stands, name in ((path, ""), *((path / name, name) for name in runs)):
        if not (stands / CONFIG).is_file():
            continue
        wanted = runs[name] if name else config
        before = RunConfig().updated(read_config(stands / CONFIG), str(stands / CONFIG)).to_dict()
        now = wanted.to_dict()
        for column in ("smiles_column", "target_columns", "task_type"):
            # Found in the table by the run itself.
            if not now["data"][column]:
                now["data"][column] = before["data"][column]
        for section, name in _DATA_DEPENDENT:
            if f"{section}.{name}" not in config.explicit_keys and name in before[section]:
                now[section][name] = before[section][name]
        del before["training"]["num_workers"], now["training"]["num_workers"]
        if changed := differences({"config": before}, {"config": now}):
            raise UsageError(
                f"{path} cannot be resumed, since {'; '.join(changed)}: put back what was, or start over with --force"
            )


def _check_table(path: Path, runs: dict[str, RunConfig]) -> None:
    """InputError where a finished run saw another table than the next one will."""
    for name, member in runs.items():
        if (path / name / METRICS).is_file():
            env = read_kept(path / name / "env.json", kept.ENVIRONMENT)
            if env["data_sha256"] != find_table(member.data).sha256:
                raise InputError(f"the table has changed since {path / name}: put it back, or --force starts over")
