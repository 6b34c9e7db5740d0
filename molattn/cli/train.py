"""`molattn train`: from a table to a trained model and its run folder."""

import sys

import typer

from molattn.cli import train_options as opt
from molattn.cli.launch import end_with_launcher, launch
from molattn.cli.terminal import print_json
from molattn.training.config import resolve
from molattn.training.distributed import is_main_process, launched_world_size, requested_world_size
from molattn.training.run_status import resolve_resume


def train(
    table: opt.Table = None,
    dataset: opt.Dataset = None,
    data_dir: opt.DataDir = None,
    smiles_column: opt.SmilesColumn = None,
    target_columns: opt.TargetColumns = None,
    task_type: opt.TaskType = None,
    weight_column: opt.WeightColumn = None,
    group_column: opt.GroupColumn = None,
    descriptor_columns: opt.DescriptorColumns = None,
    molecule_featurizers: opt.MoleculeFeaturizers = None,
    add_hs: opt.AddHs = None,
    standardize: opt.Standardize = None,
    split: opt.Split = None,
    split_sizes: opt.SplitSizes = None,
    calibration_size: opt.CalibrationSize = None,
    split_column: opt.SplitColumn = None,
    splits_file: opt.SplitsFile = None,
    num_folds: opt.NumFolds = None,
    num_replicates: opt.NumReplicates = None,
    on_3d_failure: opt.On3dFailure = None,
    model: opt.Model = None,
    preset: opt.Preset = None,
    base: opt.Base = None,
    loss: opt.Loss = None,
    ensemble_size: opt.EnsembleSize = None,
    uncertainty_method: opt.UncertaintyMethod = None,
    calibration_method: opt.CalibrationMethod = None,
    metrics: opt.Metrics = None,
    class_balance: opt.ClassBalance = None,
    epochs: opt.Epochs = None,
    batch_size: opt.BatchSize = None,
    seed: opt.Seed = None,
    accelerator: opt.Accelerator = None,
    devices: opt.Devices = None,
    num_nodes: opt.NumNodes = None,
    num_workers: opt.NumWorkers = None,
    output_dir: opt.OutputDir = None,
    resume: opt.Resume = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
    help_all: opt.HelpAll = False,  # noqa: ARG001
) -> None:
    """Train a model; prints its test metrics, the run's folder, and what to type next.

    `molattn train --dataset esol` needs nothing else. Your own table: `molattn train my.csv --target-columns y`.
    """
    if table is not None and dataset is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    options = {
        "dataset": str(table) if table is not None else dataset,
        "data_dir": None if data_dir is None else str(data_dir),
        "smiles_column": smiles_column,
        "target_columns": target_columns,
        "task_type": task_type,
        "weight_column": weight_column,
        "group_column": group_column,
        "descriptor_columns": descriptor_columns,
        "molecule_featurizers": molecule_featurizers,
        "add_hs": add_hs,
        "standardize": standardize,
        "split": split,
        "split_sizes": split_sizes,
        "calibration_size": calibration_size,
        "split_column": split_column,
        "num_folds": num_folds,
        "num_replicates": num_replicates,
        "splits_file": None if splits_file is None else str(splits_file),
        "on_3d_failure": on_3d_failure,
        "model": model,
        "preset": preset,
        "base": base,
        "loss": loss,
        "ensemble_size": ensemble_size,
        "uncertainty_method": uncertainty_method,
        "calibration_method": calibration_method,
        "metrics": metrics,
        "class_balance": class_balance,
        "epochs": epochs,
        "batch_size": batch_size,
        "seed": seed,
        "accelerator": accelerator,
        "devices": devices,
        "num_nodes": num_nodes,
        "num_workers": num_workers,
    }
    if resume is not None:
        config, output_dir = resolve_resume(resume, config, output_dir, force)
    # Settings are checked before anything heavy is imported.
    resolved = resolve(config, options, settings or ())
    if launched_world_size() == 1 and (several := requested_world_size(resolved.training)) > 1:
        nodes = resolved.training.num_nodes
        raise typer.Exit(launch(sys.argv[1:], several // nodes, nodes))
    end_with_launcher()
    from molattn._train import run
    from molattn.cli.datasets import fetch_with_progress
    from molattn.cli.progress import TerminalReporter
    from molattn.cli.train_report import report_run, report_runs
    from molattn.training.multiple_runs import MultipleRunsResult
    from molattn.training.table_source import is_path

    if resolved.data.dataset and not is_path(resolved.data.dataset):
        fetch_with_progress(resolved.data.dataset, resolved.data.data_dir, quiet or not is_main_process())
    with TerminalReporter(quiet) as reporter:
        result = run(resolved, output_dir, reporter, force, resume is not None)
    if not is_main_process():
        return
    if as_json:
        print_json({"run": str(result.folder), **result.metrics})
    elif isinstance(result, MultipleRunsResult):
        if not quiet:
            report_runs(result)
    elif not quiet:
        report_run(result)
