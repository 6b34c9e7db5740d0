"""`molattn pretrain`: a base model, pretrained on unlabeled molecules."""

from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import NumWorkers, Quiet
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_line, quote_argument
from molattn.errors import UsageError

# As in molattn.training.pretraining, which is not imported for the help screen.
DEFAULTS = {"masked_atoms": 0.15, "masked_weight": 1.0, "epochs": 50, "batch_size": 64}


@reads_table(without=("input_format", "decimal", "thousands"))
def pretrain(
    table: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV, TSV, Excel, Parquet, SMI or SDF table of molecules. [default: see --molecules]",
            show_default=False,
        ),
    ] = None,
    output_dir: Annotated[Path, typer.Option("--output-dir", "-o", help="Folder of the base model.")] = Path("base"),
    molecules: Annotated[
        str | None,
        typer.Option(
            help="nci: the molecules that RDKit includes. [default: nci, without a table]", show_default=False
        ),
    ] = None,
    reading: TableReading = DEFAULT_READING,
    max_molecules: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most this many rows of the table, sampled at random. [default: all]", show_default=False
        ),
    ] = None,
    grow: Annotated[int, typer.Option(min=0, help="Number of molecules to generate from these and add.")] = 0,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(help="A table of molecules to exclude; may be repeated.", show_default=False),
    ] = None,
    masked_atoms: Annotated[
        float | None,
        typer.Option(
            help=f"Fraction of atoms to mask and predict; 0 for none. [default: {DEFAULTS['masked_atoms']}]",
            show_default=False,
        ),
    ] = None,
    masked_weight: Annotated[
        float | None,
        typer.Option(
            help=f"Loss weight of masked atoms, relative to descriptors. [default: {DEFAULTS['masked_weight']}]",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help=f"Number of epochs. [default: {DEFAULTS['epochs']}]", show_default=False)
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", "-b", help=f"Molecules in a batch. [default: {DEFAULTS['batch_size']}]", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed of molecules, weights and batches. [default: 0]", show_default=False)
    ] = None,
    num_workers: NumWorkers = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any setting of the model and training, e.g. model.hidden_dim=128.",
            metavar="KEY=VAL",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing base model.")] = False,
    quiet: Quiet = False,
) -> None:
    """Pretrain a base model on unlabeled molecules; `molattn train --base FOLDER` starts from it.

    It learns to predict RDKit descriptors and masked atoms. The molecules of ESOL, FreeSolv, Lipophilicity, BBBP and
    Tox21 and the test molecules of TDC's ADMET group and MoleculeACE are always excluded. After an interruption, the
    same command with --resume continues.
    """
    if table is not None and molecules is not None:
        raise typer.BadParameter("give a table or --molecules, not both")
    reading.check_has_table(table)
    from molattn.cli.progress import TerminalReporter
    from molattn.training.pretrain_config import PRETRAINING, PretrainConfig
    from molattn.training.pretraining import pretrain as run
    from molattn.training.run_config import resolve
    from molattn.training.unlabelled import NCI_MOLECULES

    if molecules not in (None, NCI_MOLECULES):
        raise UsageError(f"--molecules is {NCI_MOLECULES}, or give the path of a table instead")
    options = {"epochs": epochs, "batch_size": batch_size, "seed": seed, "smiles_column": reading.smiles_column}
    options |= {"encoding": reading.encoding, "no_header_row": reading.no_header_row or None, "sheet": reading.sheet}
    options = {**PRETRAINING, **{name: value for name, value in options.items() if value is not None}}
    weights = {"masked_atoms": masked_atoms, "masked_weight": masked_weight}
    config = PretrainConfig(
        molecules=NCI_MOLECULES if table is None else str(table),
        max_molecules=max_molecules or 0,
        grow=grow,
        exclude=tuple(map(str, exclude or ())),
        run=resolve(None, {**options, "base": "none", "num_workers": num_workers}, settings or ()),
        **{name: value for name, value in weights.items() if value is not None},
    )
    with TerminalReporter(quiet) as reporter:
        result = run(config, output_dir, reporter, force, resume)
    if not quiet:
        best = result.history[result.best_epoch - 1]
        print_line(
            f"{len(result.targets.names)} descriptors of {len(result.molecules.smiles):,} molecules: validation RMSE "
            f"{best.val_metric:.3f} of their standard deviation, at epoch {result.best_epoch}"
        )
        folder = quote_argument(result.folder)
        print_line(f"Saved in {result.folder}: model.safetensors, config.json, card.toml, history.csv. Next:")
        print_line(f"  molattn train my.csv --target-columns y --base {folder}")
