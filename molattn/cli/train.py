"""`molattn train`: train a model on a table."""

import sys
from typing import Any

import typer

from molattn.cli import train_options as opt
from molattn.cli.launch import end_with_launcher, launch
from molattn.cli.terminal import print_json, print_status
from molattn.training.distributed import is_main_process, launched_world_size, requested_world_size
from molattn.training.run_config import resolve
from molattn.training.run_status import check_new_folder, resolve_resume


@opt.with_settings()
def train(
    table: opt.Table = None,
    *,
    output_dir: opt.OutputDir = None,
    resume: opt.Resume = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,  # noqa: ARG001 (read in main)
    as_json: opt.AsJson = False,
    help_all: opt.HelpAll = False,  # noqa: ARG001
    **options: Any,
) -> None:
    """Train a model: `molattn train my.csv --target-columns y`, or `--dataset esol`.

    It prints the test metrics, the run's folder, and the next commands.
    """
    opt.set_table(options, table)
    if resume is not None:
        config, output_dir = resolve_resume(resume, config, output_dir, force)
    # Settings are checked before anything heavy is imported.
    resolved = resolve(config, options, settings or ())
    if launched_world_size() == 1 and (world_size := requested_world_size(resolved.training)) > 1:
        nodes = resolved.training.num_nodes
        raise typer.Exit(launch(sys.argv[1:], world_size // nodes, nodes))
    end_with_launcher()
    from molattn.cli.progress import TerminalReporter, fetch_with_progress
    from molattn.data.tables.columns import format_names
    from molattn.training.table_source import find_table, is_path

    if output_dir is not None and resume is None:
        check_new_folder(output_dir, force)
    if resolved.data.dataset and not is_path(resolved.data.dataset):
        fetch_with_progress(resolved.data.dataset, resolved.data.data_dir, quiet or not is_main_process())
    source = find_table(resolved.data)
    if not quiet and is_main_process():
        # Before torch and RDKit are imported, which takes seconds.
        names = format_names(source.config.target_columns)
        print_status(
            f"{source.name}: learning {names} from the SMILES in {format_names([source.config.smiles_column])}"
        )

    from molattn._train import run_and_plot
    from molattn.cli.train_report import report_run, report_runs
    from molattn.training.multiple_runs import MultipleRunsResult

    with TerminalReporter(quiet) as reporter:
        result = run_and_plot(resolved, output_dir, reporter, force, resume is not None)
    if not is_main_process():
        return
    if as_json:
        print_json({"run": str(result.folder), **result.metrics})
    elif isinstance(result, MultipleRunsResult):
        if not quiet:
            report_runs(result)
    elif not quiet:
        report_run(result)
