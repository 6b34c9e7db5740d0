"""`molattn predict`: predictions for SMILES or tables of molecules."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import (
    Accelerator,
    Engine,
    EscapeFormulas,
    Force,
    NumWorkers,
    Precision,
    Quiet,
    Resume,
    Run,
    Shard,
    Smiles,
    Strict,
    load_engine,
    parse_shard,
)
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import STDIO, stdout_writer, warn
from molattn.inference.options import LOCAL, ONNX, PredictionOptions, check_engine, engine_of


@reads_table()
def predict(
    run: Run,
    tables: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="TABLES",
            help="Tables of molecules: .csv, .tsv, .smi, .sdf, .parquet, .xlsx; - for standard input.",
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
            help="Output file: .csv, .tsv, .sdf, .parquet, .xlsx; a folder for several tables. [default: print]",
            show_default=False,
        ),
    ] = None,
    reading: TableReading = DEFAULT_READING,
    num_workers: NumWorkers = 0,
    shard: Shard = None,
    resume: Resume = False,
    engine: Engine = LOCAL,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Add intervals that contain the true value with this probability, such as 0.9.",
            show_default=False,
        ),
    ] = None,
    applicability: Annotated[
        bool, typer.Option("--applicability", help="Add how far each molecule is from the training molecules.")
    ] = False,
    uncertainty_method: Annotated[
        str | None,
        typer.Option(
            help="How standard deviations are computed: dropout, none, ... [default: as trained]", show_default=False
        ),
    ] = None,
    calibration_method: Annotated[
        str | None,
        typer.Option(
            help="How intervals are computed: zscaling, isotonic, none, ... [default: as trained]", show_default=False
        ),
    ] = None,
    strict: Strict = False,
    force: Force = False,
    escape_formulas: EscapeFormulas = False,
    accelerator: Accelerator = "cpu",
    precision: Precision = "32-true",
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --smiles: print JSON.")] = False,
) -> None:
    """Predict SMILES, or every row of a table.

    `molattn predict runs/esol --smiles CCO` prints the prediction. `molattn predict runs/esol in.csv -o out.csv` keeps
    every row and column of in.csv, in order, and adds `<target>_pred`, `status` (ok or error) and `error` (the reason).
    For a binary target the prediction is the probability of the positive class; for several classes it is a class, with
    `<target>_prob_<class>` for each; for an atom-level target it is a list, in the order of the SMILES. Tables of any
    length are predicted in bounded memory: a long output is written in parts until it is complete, and `--resume`
    continues after an interruption. Text is written as UTF-8, with semicolons and decimal commas if the table has them.
    The outputs of `--shard 1/4` to `4/4`, concatenated, are the output of the whole table. A model that was trained
    with `--descriptor-columns` reads these columns from the table.

    Several tables are written to a folder, under their own names: `molattn predict runs/esol data/*.parquet -o out/`.
    `--engine ray` (extra `ray`) distributes them, part by part, over the CPUs of the Ray cluster in RAY_ADDRESS, whose
    machines read the same files, or of this machine; `--num-workers` limits their number. `--engine onnx` (extra
    `onnx`) computes with what `molattn export` wrote into the run folder, and an ONNX file can be given instead of
    the folder: `molattn predict esol.onnx in.csv`. Neither needs torch.

    `--interval 0.9` adds `<target>_lower` and `<target>_upper`, or for classes `<target>_set`, from the calibration
    molecules of `molattn train --calibration-size 0.1`. `--applicability` adds the distance to the nearest training
    molecules in the model's embedding, the largest Tanimoto similarity, and `out_of_domain` with the reason.
    """
    if (not tables) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    other_engine = engine if engine not in (LOCAL, ONNX) else ""
    reading.check_has_table(tables, output=output, shard=shard, resume=resume, engine=other_engine)
    if tables and as_json:
        raise typer.BadParameter("--json applies only to --smiles")
    from molattn.inference.table_job import TableJob, jobs_for_tables, locked_outputs

    engine = engine_of(run, engine)
    check_engine(engine, accelerator, precision)
    options = PredictionOptions(interval, uncertainty_method or "", calibration_method or "", applicability)
    if smiles:
        from molattn.cli.predictions import predict_smiles

        predict_smiles(load_engine(run, engine, accelerator, precision), smiles, options, as_json, strict)
        return
    assert tables
    from molattn.cli.table_report import TableProgress, report_rows, resume_hint

    output = None if output == STDIO else output  # both print
    job = TableJob(
        input=reading.input_table(tables[0]),
        output=None if output is None else Path(output),
        write_text=stdout_writer() if output is None else None,
        shard=parse_shard(shard),
        num_workers=num_workers,
        resume=resume,
        strict=strict,
        force=force,
        quiet=quiet,
        escape_formulas=escape_formulas,
    )
    with locked_outputs(jobs_for_tables(job, tables, output)) as jobs:
        predictor = load_engine(run, engine, accelerator, precision)
        from molattn.inference.engines import predict_jobs

        progress = partial(TableProgress, quiet=quiet)
        with resume_hint(jobs, quiet):
            counts = predict_jobs(predictor, jobs, options, engine, progress, warn)
    report_rows(counts, "prediction", "predicted", job.output, quiet)
