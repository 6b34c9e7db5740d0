"""Options of `molattn train`. Each is None when not given, so that a configuration file can set it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from molattn.models.config import CONFIGS
from molattn.models.presets import PRESETS
from molattn.training.config import DataConfig, RunConfig, TrainingConfig

_DATA, _FIT, _RUN = "Data", "Training", "Run"
# As in molattn.data and molattn.chem, which are not imported for the help screen.
SPLITS = ("random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone", "stratified")
FEATURIZERS = ("rdkit_few", "rdkit_2d")
_data, _training = DataConfig(), TrainingConfig()


def _option(
    panel: str, text: str, *names: str, default: object = None, metavar: str | None = None, hidden: bool = False
) -> Any:
    """An option that is None when not given, so that a configuration file can set it.

    Hidden options are shown by `--help-all` only.
    """
    text = text if default is None else f"{text} [default: {default}]"
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False, hidden=hidden)


def _show_all(context: typer.Context, requested: bool) -> None:
    if requested:
        for parameter in context.command.params:
            parameter.hidden = False  # pyright: ignore[reportAttributeAccessIssue]
        print(context.get_help())
        raise typer.Exit


Table = Annotated[
    Path | None, typer.Argument(help="A CSV, TSV, Parquet, SMI or SDF table to learn from.", show_default=False)
]
Dataset = Annotated[str | None, _option(_DATA, "A data set by name, such as esol, or a table's path.")]
DataDir = Annotated[
    Path | None,
    _option(_DATA, "A folder of data sets to search first, and to download to; MOLATTN_DATA.", hidden=True),
]
SmilesColumn = Annotated[str | None, _option(_DATA, "Column of SMILES; found by its name if not given.")]
TargetColumns = Annotated[
    list[str] | None, _option(_DATA, "Column to learn; repeat it to learn several.", metavar="NAME")
]
TaskType = Annotated[
    str | None,
    _option(
        _DATA,
        "regression, binary or multiclass; atom-regression, ...; inferred if not given.",
        "--task-type",
        "-t",
    ),
]
WeightColumn = Annotated[str | None, _option(_DATA, "Column of weights of the rows.", metavar="NAME", hidden=True)]
GroupColumn = Annotated[
    str | None,
    _option(_DATA, "Column of groups: the rows of a group have the same split label.", metavar="NAME", hidden=True),
]
DescriptorColumns = Annotated[
    list[str] | None,
    _option(_DATA, "Column of numbers that joins the readout; may be repeated.", metavar="NAME", hidden=True),
]
MoleculeFeaturizers = Annotated[
    list[str] | None,
    _option(
        _DATA,
        f"Descriptors that RDKit computes and that join the readout: {', '.join(FEATURIZERS)}.",
        metavar="NAME",
        hidden=True,
    ),
]
AddHs = Annotated[
    bool | None, typer.Option("--add-hs", help="Make hydrogens atoms of the graph.", rich_help_panel=_DATA)
]
Standardize = Annotated[
    str | None,
    _option(_DATA, "Standard form of molecules: parent (no salt, neutral) or tautomer.", hidden=True),
]
Split = Annotated[
    str | None,
    _option(_DATA, f"How to split: {', '.join(SPLITS)}.", "--split", "--split-type", default=_data.split),
]
SplitSizes = Annotated[
    tuple[float, float, float] | None,
    _option(_DATA, "Shares of train, val, test.", default=" ".join(map(str, _data.split_sizes)), hidden=True),
]
CalibrationSize = Annotated[
    float | None,
    _option(_DATA, "Share of the molecules held out, from training, to calibrate.", metavar="SHARE", hidden=True),
]
SplitColumn = Annotated[
    str | None,
    _option(
        _DATA,
        "A column of the table with train, val or test for each row.",
        "--split-column",
        "--splits-column",
        hidden=True,
    ),
]
SplitsFile = Annotated[Path | None, _option(_DATA, "A table with columns smiles and split, row for row.")]
NumFolds = Annotated[
    int | None, _option(_DATA, "k-fold cross-validation: k runs, each molecule tested in one.", hidden=True)
]
NumReplicates = Annotated[int | None, _option(_DATA, "Number of runs, with this seed and the next ones.", hidden=True)]
On3dFailure = Annotated[
    str | None,
    _option(
        _DATA,
        "A molecule without a 3D geometry: paths (path lengths instead), reject or stop.",
        default=_data.on_3d_failure,
        hidden=True,
    ),
]
Model = Annotated[str | None, _option(_FIT, "The model: " + " or ".join(CONFIGS) + ".", default=RunConfig().model.kind)]
Preset = Annotated[str | None, _option(_FIT, "A published model, see `molattn presets`: " + ", ".join(PRESETS) + ".")]
Base = Annotated[
    str | None,
    _option(
        _FIT,
        "Where weights start: a base model's name (nci) or folder, none, or auto: nci where it fits.",
        default="auto",
    ),
]
Loss = Annotated[
    str | None,
    _option(
        _FIT,
        "mse, mae, huber, mve, evidential, quantile; bce, cross-entropy, dirichlet.",
        "--loss-function",
        "--loss",
        "-l",
        hidden=True,
    ),
]
EnsembleSize = Annotated[
    int | None, _option(_FIT, "Models whose mean is the prediction.", default=_training.ensemble_size, hidden=True)
]
UncertaintyMethod = Annotated[
    str | None,
    _option(_FIT, "How standard deviations are computed, such as dropout. [default: by ensemble or loss]", hidden=True),
]
CalibrationMethod = Annotated[
    str | None,
    _option(_FIT, "conformal-regression, zscaling, isotonic; conformal-multiclass, ...", hidden=True),
]
Metrics = Annotated[
    list[str] | None, _option(_FIT, "What is reported, such as auroc; may be repeated.", "--metric", hidden=True)
]
ClassBalance = Annotated[
    bool | None,
    typer.Option("--class-balance", help="Weight classes equally in the loss.", rich_help_panel=_FIT, hidden=True),
]
Epochs = Annotated[int | None, _option(_FIT, "Maximum number of epochs.", default=_training.epochs)]
BatchSize = Annotated[
    int | None, _option(_FIT, "Molecules in a batch.", "--batch-size", "-b", default=_training.batch_size)
]
Seed = Annotated[int | None, _option(_FIT, "Of split, weights and batches.", default=_training.seed)]
Accelerator = Annotated[
    str | None, _option(_FIT, "What computes: auto, cpu or gpu.", default=_training.accelerator, hidden=True)
]
Devices = Annotated[
    str | None,
    _option(_FIT, "Number of devices on each machine, a process for each.", default=_training.devices, hidden=True),
]
NumNodes = Annotated[
    int | None, _option(_FIT, "Machines that train together.", default=_training.num_nodes, hidden=True)
]
NumWorkers = Annotated[
    int | None,
    _option(_FIT, "Processes that read molecules.", "--num-workers", "-n", default=_training.num_workers),
]
OutputDir = Annotated[Path | None, _option(_RUN, "Folder of the run. [default: runs/NAME]", "--output-dir", "-o")]
Resume = Annotated[Path | None, _option(_RUN, "Folder of an unfinished run to continue.", metavar="RUN", hidden=True)]
Config = Annotated[Path | None, _option(_RUN, "A TOML file of settings, such as a run's config.toml.")]
Settings = Annotated[
    list[str] | None, _option(_RUN, "Any setting, e.g. model.num_layers=6.", "--set", metavar="SECTION.KEY=VALUE")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the run there.", rich_help_panel=_RUN)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors, warnings.", rich_help_panel=_RUN)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.", rich_help_panel=_RUN)]
HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=_show_all)
]
