"""`molattn benchmark`: train and score on all tasks of a benchmark, by its protocol."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from molattn.cli import train_options as opt
from molattn.cli.terminal import print_status
from molattn.errors import UsageError, short_repr
from molattn.training.config import BENCHMARK_SETTINGS
from molattn.training.run_config import RunConfig, parse_setting, resolve

MAX_SEEDS = 1000
WITHOUT_EFFECT = {"data": ("data_dir",), "training": ("num_workers", "threads", "checkpoint_every")}
"""Settings that do not identify a model, by section: a benchmark can be resumed with others."""


@opt.with_settings(without=(*BENCHMARK_SETTINGS["data"], *BENCHMARK_SETTINGS["training"]))
def benchmark(
    group: Annotated[
        str,
        typer.Argument(help="tdc, the 22 tasks of TDC's ADMET group, or moleculeace.", metavar="BENCHMARK"),
    ],
    *,
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Tasks, such as caco2_wang herg. [default: all]", metavar="NAME", show_default=False),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, such as 1-5 or 1,3: one training for each.")] = "1-5",
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", "-o", help="The folder of scores. [default: runs/benchmark-BENCHMARK]"),
    ] = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
    help_all: opt.HelpAll = False,  # noqa: ARG001
    **options: Any,
) -> None:
    """Train on the tasks of a benchmark and score the test molecules, by the protocol of its published results.

    `molattn benchmark tdc` trains on each task with five seeds, each with other validation molecules, and prints scores
    with intervals and ranks in the leaderboards. The other options are those of `molattn train`.

    Scores are saved in the folder: the same command resumes after an interruption, and adds tasks or seeds. Training
    gets no label of a test molecule. Each score reads these labels: choose settings by validation, not by scores.
    """
    numbers = parse_seeds(seeds)
    resolved = resolve(config, options, _check_settings(settings or []))
    from molattn.benchmark import benchmark_tasks, run_benchmark
    from molattn.benchmark.trainings import molattn_trainer
    from molattn.cli.benchmark_report import report

    chosen = benchmark_tasks(group, tasks or ())
    folder = output_dir or Path("runs") / f"benchmark-{group}"
    summaries = run_benchmark(
        chosen,
        molattn_trainer(resolved),
        folder,
        numbers,
        {"molattn": _identity(resolved)},
        resolved.data.data_dir,
        (lambda _: None) if quiet else print_status,
    )
    report(group, summaries, folder, as_json, quiet)


def parse_seeds(text: str) -> list[int]:
    """The seeds in a text such as "1-5" or "1,3,7-9", each once.

    Raises:
        UsageError: another text, or more than `MAX_SEEDS` seeds.

    >>> parse_seeds("1-3,7")
    [1, 2, 3, 7]
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MAX_SEEDS:
            raise UsageError(f"--seeds {short_repr(text)}: write seeds such as 1-5 or 1,3, at most {MAX_SEEDS} of them")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def _check_settings(settings: list[str]) -> list[str]:
    """The values of `--set`, unchanged. Raises UsageError for a setting that the benchmark decides."""
    for text in settings:
        for section, values in parse_setting(text).items():
            if decided := set(values) & set(BENCHMARK_SETTINGS.get(section, ())):
                raise UsageError(f"--set {text}: the benchmark decides {section}.{decided.pop()}, leave it out")
    return settings


def _identity(config: RunConfig) -> dict[str, Any]:
    """The settings that identify a model in the folder of a benchmark."""
    found = {}
    for section, values in config.explicit_settings().items():
        left_out = {*BENCHMARK_SETTINGS.get(section, ()), *WITHOUT_EFFECT.get(section, ())}
        if identifying := {name: value for name, value in values.items() if name not in left_out}:
            found[section] = identifying
    return found
