"""`molattn predict`: what a trained model says of molecules, row by row, never stopping at a bad one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.at_length import Making, run_job, run_jobs
from molattn.cli.job import Job, new_names, outputs_held, outputs_in
from molattn.cli.options import Force, InputFormat, NumWorkers, Quiet, Resume, Run, Smiles, SmilesColumn
from molattn.cli.start import predictor_of
from molattn.cli.tally import tell_rows
from molattn.cli.terminal import printable, say, say_json, warn
from molattn.errors import InputError, RowsFailed, UsageError

LOCAL, RAY = "local", "ray"

if TYPE_CHECKING:
    from molattn.data.tables.row_stream import RowStream
    from molattn.data.tables.writers import Column, NewColumn
    from molattn.inference import PredictionOptions, Predictor, RowPrediction
    from molattn.inference.batch_predictor import ExtraColumn
    from molattn.inference.rows import Value


def predict(
    run: Run,
    tables: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TABLES]",
            help="Tables of molecules: .csv, .tsv, .smi, .sdf, .parquet; - reads one from standard input.",
            show_default=False,
        ),
    ] = None,
    smiles: Smiles = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Where the table goes: .csv, .tsv, .parquet; several into a folder. [default: print it]",
            show_default=False,
        ),
    ] = None,
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    num_workers: NumWorkers = 0,
    shard: Annotated[
        str | None, typer.Option(help="i/n: predict the i-th of n parts of the rows alone.", show_default=False)
    ] = None,
    resume: Resume = False,
    engine: Annotated[
        str, typer.Option(help="local, or ray: on the processors of a Ray cluster, or of this machine.")
    ] = LOCAL,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Add the ends between which the truth lies with this probability, such as 0.9.", show_default=False
        ),
    ] = None,
    applicability: Annotated[
        bool, typer.Option("--applicability", help="Add how unlike the training molecules each one is.")
    ] = False,
    uncertainty_method: Annotated[
        str | None,
        typer.Option(help="How standard deviations are made: dropout, none, ...", show_default=False),
    ] = None,
    calibration_method: Annotated[
        str | None,
        typer.Option(help="How intervals are made: zscaling, isotonic, none, ...", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 if a row has no prediction.")] = False,
    force: Force = False,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="Put ' before cells that a spreadsheet takes for a formula.")
    ] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON, with --smiles.")] = False,
) -> None:
    """Predict molecules given by SMILES, or every row of a table.

    `molattn predict runs/esol --smiles CCO` prints. `molattn predict runs/esol in.csv -o out.csv` keeps every row and
    column of in.csv, in order, and adds `<target>_pred`, `status` (ok or error) and `error` (why). Of a binary target
    the prediction is the probability of 1; of several classes a class, with `<target>_prob_<class>` beside it; of a
    target of atoms a list, in the order of the SMILES. Tables may be of any length: memory is bounded, a long output is
    kept in parts until it is whole, and `--resume` goes on after a kill. The outputs of `--shard 1/4` to `4/4`, one
    below the other, are the output of the whole. A model trained with `--descriptor-columns` reads these columns from
    the table.

    Several tables go into a folder, each under its own name: `molattn predict runs/esol data/*.parquet -o out/`.
    `--engine ray` (extra `ray`) shares them out, part by part, among the processors of the Ray cluster in RAY_ADDRESS,
    whose machines see the same files, or else of this machine; `--num-workers` says among how many.

    `--interval 0.9` adds `<target>_lower` and `<target>_upper`, or of classes `<target>_set`, from the calibration
    molecules of `molattn train --calibration-size 0.1`. `--applicability` adds the distance to the nearest training
    molecules in the model's own eyes, the largest Tanimoto similarity, and `unlike_training`: no, embedding,
    fingerprint or both.
    """
    if (not tables) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    if engine not in (LOCAL, RAY):
        raise typer.BadParameter(f"there is no engine {engine!r}: choose {LOCAL} or {RAY}")
    if smiles and (output is not None or smiles_column is not None or input_format or shard or resume):
        raise typer.BadParameter(
            "--output, --smiles-column, --input-format, --shard and --resume go with a table, not with --smiles"
        )
    if tables and as_json:
        raise typer.BadParameter("--json goes with --smiles; a table brings a table")
    if smiles:
        beside = _beside(interval, uncertainty_method, calibration_method, applicability)
        failed = _print_smiles(predictor_of(run), smiles, as_json, beside)
        if failed:
            first = f"--smiles {failed[0].smiles}: {failed[0].error}"
            count = f"{len(failed)} of {len(smiles)} rows have no prediction; the first, {first}"
            if strict:
                raise RowsFailed(count)
            warn(count)
        return
    assert tables
    job = Job(
        run=run,
        table=tables[0],
        output=None if output is None else Path(output),
        smiles_column=smiles_column,
        input_format=input_format,
        shard=shard,
        num_workers=num_workers,
        resume=resume,
        strict=strict,
        force=force,
        quiet=quiet,
        beside=str([interval, uncertainty_method, calibration_method, applicability]),
        escape_formulas=escape_formulas,
    )
    asked = Asked(run, interval, uncertainty_method, calibration_method, applicability, escape_formulas)
    with outputs_held(_jobs(job, tables, output)) as jobs:
        if engine == RAY:
            from molattn.cli.on_ray import run_on_ray

            tally = run_on_ray(jobs, asked)
        else:
            making = asked.making()
            tally = run_jobs(jobs, partial(run_job, making=making))
    tell_rows(job, tally)


@dataclass(frozen=True)
class Asked:
    """What is asked of a model, in plain values, which other processes can be told."""

    run: Path
    interval: float | None = None
    uncertainty_method: str | None = None
    calibration_method: str | None = None
    applicability: bool = False
    escape_formulas: bool = False

    def making(self) -> Making:
        """What the model, now loaded, adds to tables."""
        from molattn.data.tables.writers import output_format

        predictor = predictor_of(self.run)
        beside = _beside(self.interval, self.uncertainty_method, self.calibration_method, self.applicability)
        columns = predictor.extra_columns_for(beside)
        return Making(
            predictor.predict_rows if beside == type(beside)() else partial(predictor.predict_rows, options=beside),
            partial(_new_columns, predictor, columns),
            partial(_cells, predictor, columns),
            partial(output_format, escape_formulas=self.escape_formulas),
            predictor.descriptors,
            predictor.model.slow_reason,
        )


def _jobs(job: Job, tables: Sequence[Path], output: str | None) -> list[Job]:
    """The job of each table; the one given where one goes to one file."""
    if output is None or (len(tables) == 1 and not output.endswith("/") and not Path(output).is_dir()):
        if len(tables) > 1:
            raise UsageError(f"{len(tables)} tables go into a folder: give --output FOLDER/")
        return [job]
    if any(str(table) == "-" for table in tables):
        raise UsageError("standard input is one table, which goes to a file: give --output FILE")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, and {len(tables)} tables go into a folder: give another --output")
    outputs = outputs_in(folder, tables)
    if not folder.absolute().parent.is_dir():
        raise InputError(f"there is no folder {folder.absolute().parent}: create it first")
    folder.mkdir(exist_ok=True)
    pairs = zip(tables, outputs, strict=True)
    return [replace(job, table=table, output=out, one_of_many=True) for table, out in pairs]


def _beside(
    interval: float | None, uncertainty_method: str | None, calibration_method: str | None, applicability: bool
) -> "PredictionOptions":
    from molattn.inference import PredictionOptions

    return PredictionOptions(interval, uncertainty_method or "", calibration_method or "", applicability)


def _new_columns(predictor: "Predictor", columns: Sequence["ExtraColumn"], stream: "RowStream") -> list["NewColumn"]:
    """The columns that prediction adds to those of a table."""
    from molattn.data.tables.writers import NewColumn

    targets = [f"{t}_pred" for t in predictor.targets]
    names = new_names([*targets, *(c.name for c in columns), "status", "error"], stream.columns)
    # Of several classes the prediction is a name.
    kinds = ["string" if predictor.task.kind == "multiclass" else "float64"] * len(targets)
    kinds += [c.kind for c in columns]
    if predictor.task.of_atoms:
        kinds = [f"list<{kind}>" for kind in kinds]
    kinds += ["string", "string"]
    return list(map(NewColumn, names, kinds))


def _cells(predictor: "Predictor", columns: Sequence["ExtraColumn"], rows: Sequence["RowPrediction"]) -> list["Column"]:
    """What stands in those columns."""
    missing = (None,) * (len(predictor.targets) + len(columns))
    values = zip(*(missing if r.values is None else (*r.values, *r.extra_values) for r in rows), strict=True)
    return [*map(list, values), ["error" if r.error else "ok" for r in rows], [r.error for r in rows]]


def _shown(value: "Value") -> str:
    """A prediction as a terminal has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return value if isinstance(value, str) else f"{value:.3f}"


def _print_smiles(
    predictor: "Predictor", smiles: Sequence[str], as_json: bool, beside: "PredictionOptions"
) -> list["RowPrediction"]:
    """Print one line per SMILES; return the ones that failed."""
    names = [c.name for c in predictor.extra_columns_for(beside)]
    rows = list(predictor.predict_rows(smiles, options=beside))
    if as_json:
        content = [
            {
                "smiles": r.smiles,
                **dict(zip(predictor.targets, r.values or [None] * len(predictor.targets), strict=True)),
                **dict(zip(names, r.extra_values or [None] * len(names), strict=True)),
            }
            | {"status": "error" if r.error else "ok", "error": r.error, "warnings": list(r.warnings)}
            for r in rows
        ]
        say_json(content)
        return [r for r in rows if r.error]
    binary = predictor.task.kind == "binary"
    units = ["probability" if binary else u for u in predictor.units]
    heads = [f"{t} ({u})" if u else t for t, u in zip(predictor.targets, units, strict=True)] + names
    lines = [("smiles", *heads)]
    for r in rows:
        values = [f"error: {r.error}"]
        if r.values is not None:
            values = list(map(_shown, (*r.values, *r.extra_values)))
        lines.append((printable(r.smiles), *values))
    width = max(len(line[0]) for line in lines)
    for line in lines:
        say("  ".join([line[0].ljust(width), *line[1:]]))
    for r in rows:
        for warning in r.warnings:
            warn(f"{r.smiles}: {warning}")
    return [r for r in rows if r.error]
