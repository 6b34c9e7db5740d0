"""`molattn embed`: every molecule as the vector that a trained model's last map reads."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.at_length import Making, run_job
from molattn.cli.job import Job, new_names, outputs_held
from molattn.cli.options import Force, InputFormat, MoleculeTable, NumWorkers, Quiet, Resume, Run, SmilesColumn
from molattn.cli.start import predictor_of
from molattn.cli.tally import tell_rows

if TYPE_CHECKING:
    from molattn.data.tables.row_stream import RowStream
    from molattn.data.tables.writers import Column, NewColumn, TableFormat
    from molattn.inference import RowPrediction


def embed(
    run: Run,
    table: MoleculeTable,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where the vectors go: .parquet, .csv, .tsv or .npy.", show_default=False),
    ],
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    num_workers: NumWorkers = 0,
    shard: Annotated[
        str | None, typer.Option(help="i/n: embed the i-th of n parts of the rows alone.", show_default=False)
    ] = None,
    resume: Resume = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 if a row has no vector.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Embed every row of a table: the vector before the model's last, linear map, as a fingerprint.

    `molattn embed runs/esol in.csv -o out.parquet` keeps every row and column of in.csv, in order, and adds `f0`, `f1`,
    ..., `status` (ok or error) and `error` (why). A `.npy` file holds the vectors alone, one row for each row of the
    table, NaN where a molecule cannot be read. All else is as for `molattn predict`.
    """
    job = Job(
        run=run,
        table=table,
        output=output,
        smiles_column=smiles_column,
        input_format=input_format,
        shard=shard,
        num_workers=num_workers,
        resume=resume,
        strict=strict,
        force=force,
        quiet=quiet,
        what="fingerprint",
    )
    with outputs_held([job]):
        predictor = predictor_of(run)
        alone = output.suffix.lower() == ".npy"
        making = Making(
            predictor.embed_rows,
            partial(_new_columns, predictor.dim, alone),
            partial(_cells, predictor.dim, alone),
            _form,
            predictor.descriptors,
            predictor.model.slow_reason,
        )
        tally = run_job(job, making)
    tell_rows(job, tally)


def _new_columns(dim: int, alone: bool, stream: "RowStream") -> list["NewColumn"]:
    from molattn.data.tables.writers import NewColumn

    numbers = [f"f{i}" for i in range(dim)]
    if alone:
        return [NewColumn(name, "float32") for name in numbers]
    names = new_names([*numbers, "status", "error"], stream.columns)
    return [*(NewColumn(name, "float32") for name in names[:-2]), *map(NewColumn, names[-2:])]


def _cells(dim: int, alone: bool, rows: Sequence["RowPrediction"]) -> list["Column"]:
    values = [[None if r.values is None else r.values[i] for r in rows] for i in range(dim)]
    if alone:
        return [*values]
    return [*values, ["error" if r.error else "ok" for r in rows], [r.error for r in rows]]


def _form(path: Path | None, stream: "RowStream", added: Sequence["NewColumn"]) -> "TableFormat":
    from molattn.data.tables.writers import NpyFormat, output_format

    if path is not None and path.suffix.lower() == ".npy":
        return NpyFormat(added)
    return output_format(path, stream, added)
