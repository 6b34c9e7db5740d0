"""`molattn check`: problems of a table, found before a model is trained on it."""

from typing import TYPE_CHECKING, Any

from molattn.cli import train_options as opt
from molattn.cli.terminal import print_json, print_line
from molattn.errors import InputError
from molattn.training.run_config import resolve

if TYPE_CHECKING:
    from molattn.training.data_report import DataReport
    from molattn.training.run_config import RunConfig


@opt.with_settings(
    "dataset",
    "smiles_column",
    "target_columns",
    "task_type",
    "weight_column",
    "group_column",
    "descriptor_columns",
    "standardize",
    "add_hs",
    "target_transform",
    "duplicates",
    "data_dir",
    "split",
    "split_sizes",
    "split_column",
    "splits_file",
    "calibration_size",
    "seed",
    "num_workers",
)
def check(
    table: opt.Table = None,
    *,
    config: opt.Config = None,
    settings: opt.Settings = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
    **options: Any,
) -> None:
    """Read a table as training would, and report its problems: duplicates, salts, ranges, classes, splits.

    `molattn check my.csv --target-columns y` exits with code 0 if a model can be trained on the table, and with code 3
    and the reason if not.
    """
    opt.set_table(options, table)
    resolved = resolve(config, options, settings or ())
    try:
        report = _check(resolved, quiet)
    except InputError as error:
        if as_json:
            print_json({"trainable": False, "error": str(error)})
        raise
    if as_json:
        print_json({"trainable": True, **report.to_dict()})
    elif not quiet:
        _print_report(report)


def _check(config: "RunConfig", quiet: bool) -> "DataReport":
    """Read the data of a run, and check it.

    Raises:
        InputError: no model can be trained on it.
    """
    from molattn.cli.progress import TerminalReporter, fetch_with_progress
    from molattn.training.table_source import find_table, is_path

    if config.data.dataset and not is_path(config.data.dataset):
        fetch_with_progress(config.data.dataset, config.data.data_dir, quiet)
    find_table(config.data)

    from molattn.training.data_report import check_data
    from molattn.training.prepare import prepare_run
    from molattn.training.run_config import check_config

    check_config(config)
    # As in training, which then finds the molecules in the cache.
    with TerminalReporter(quiet) as reporter:
        dataset = prepare_run(config, reporter.molecules)
    return check_data(dataset, before_training=False, num_workers=config.training.num_workers)


def _print_report(report: "DataReport") -> None:
    """Print the counts, and the findings, first those that need attention."""
    from molattn.training.transforms import describe_recognized

    content, dataset = report.to_dict(), report.dataset
    targets = ", ".join(content["targets"][:6]) + (", ..." if len(content["targets"]) > 6 else "")
    merged = f", {content['merged']:,} merged into those" if content["merged"] else ""
    rejected = f", {content['rejected']:,} left out" if content["rejected"] else ""
    print_line(
        f"{content['rows']:,} rows, {content['used']:,} can be used{merged}{rejected}; {content['task']} of {targets}"
    )
    if dataset.task_message:
        print_line(dataset.task_message)
    for message in describe_recognized(dataset.transform_reasons):
        print_line(message)
    print_line(", ".join(f"{label} {count:,}" for label, count in content["split"].items()))
    for title, needs_attention in (("needs attention", True), ("for information", False)):
        messages = [f.message for f in report.findings if f.needs_attention == needs_attention]
        if messages:
            print_line()
            print_line(f"{title}:")
        for message in messages:
            print_line(f"  - {message}")
    print_line()
    print_line("A model can be trained on this table.")
