"""Predictions and embeddings of tables of any length, in bounded memory."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.errors import MolattnWarning, warn_caller
from molattn.inference.added_columns import embedding_columns
from molattn.inference.engines import ProgressCallback, callback_progress, predict_jobs
from molattn.inference.options import DEFAULT_OPTIONS, PredictionOptions
from molattn.inference.row_counts import RowCounts
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.table_engine import run_jobs
from molattn.inference.table_job import (
    InputTable,
    TableJob,
    create_output_folder,
    locked_outputs,
)


class TablePredictor(RowPredictor):
    """The part of a `Predictor` that reads and writes tables."""

    def predict_table(
        self,
        input: str | Path,
        output: str | Path,
        *,
        smiles_column: str | None = None,
        input_format: str | None = None,
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        options: PredictionOptions = DEFAULT_OPTIONS,
        shard: tuple[int, int] | None = None,
        num_workers: int = 0,
        engine: str = "local",
        resume: bool = False,
        strict: bool = False,
        force: bool = False,
        escape_formulas: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RowCounts:
        """Predict every row of a table of any length, in bounded memory: what `molattn predict` does.

        The output has every row and column of the input, in order, and adds `<target>_pred`, the columns of `options`,
        `status` ("ok" or "error") and `error` (why). A bad row has an error and does not stop the others; a
        `MolattnWarning` reports how many there are. A long output is written in parts next to it, and appears at its
        path when it is complete; after an interruption, `resume=True` continues with the parts that are missing. The
        result has the same bytes either way, and is the same as the command's.

        Args:
            input: .csv, .tsv, .smi, .sdf, .parquet or .xlsx; "-" for standard input.
            output: .csv, .tsv, .sdf, .parquet or .xlsx, the text formats also with .gz.
            smiles_column: name of the SMILES column; guessed when None.
            input_format: "csv", "tsv", "smi", "sdf", "parquet" or "xlsx"; by the input's name when None.
            table_options: encoding, header and sheet of the table; detected by default.
            options: what is computed in addition, such as intervals.
            shard: (i, n) predicts the i-th of n shards of the rows, from 1; the outputs of all shards, one after the
                other, are the output of the whole table.
            num_workers: processes that read molecules; 0 to read them in this process.
            engine: "local"; "ray" for the processors of the Ray cluster in RAY_ADDRESS, or of this machine; or "onnx",
                which only an `OnnxPredictor` has, and which is its "local" too.
            resume: continue with an unfinished output.
            strict: raise at the first row without a prediction.
            force: replace the output.
            escape_formulas: put an apostrophe before cells that a spreadsheet would read as a formula.
            progress: called with the number of rows read so far, and the number of all rows, None if unknown.

        Returns:
            The `RowCounts`: `.rows`, `.failed`, `.first_failed` and so on.

        Raises:
            UsageError: an output that exists, a column, format, engine or shard that does not exist, options that the
                model does not support, or another process that writes to the output.
            InputError: a table that cannot be read, an output folder that does not exist, or unfinished parts of
                another input, model or options.
            RowsFailed: a row has no prediction, and `strict` is set.
            MissingExtra: Ray is not installed, or openpyxl for .xlsx.
            ProcessLost: Ray's processes died repeatedly, or its cluster cannot be reached.

        Example::

            predictor = molattn.load("runs/esol")
            counts = predictor.predict_table("in.csv", "out.csv", num_workers=4, resume=True)
            counts.rows, counts.failed  # 100000, 3
        """
        job = TableJob(
            input=InputTable(Path(input), smiles_column, input_format, table_options),
            output=Path(output),
            shard=shard,
            num_workers=num_workers,
            resume=resume,
            strict=strict,
            force=force,
            escape_formulas=escape_formulas,
        )
        return self._predict_jobs([job], options, engine, progress)

    def predict_tables(
        self,
        inputs: Sequence[str | Path],
        folder: str | Path,
        *,
        smiles_column: str | None = None,
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        options: PredictionOptions = DEFAULT_OPTIONS,
        num_workers: int = 0,
        engine: str = "local",
        resume: bool = False,
        strict: bool = False,
        force: bool = False,
        escape_formulas: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RowCounts:
        """Predict several tables into files of the same names in a folder, which is created; see `predict_table`.

        With `resume=True`, tables that are finished are not predicted again.

        Args:
            inputs: the tables; standard input is not possible.
            folder: its parent must exist. A table of .smi or .sdf is written as .csv.
            smiles_column, table_options, options, num_workers, engine, resume, strict, force, escape_formulas: as for
                `predict_table`, for every table.
            progress: as for `predict_table`; with "local" called for each table by itself.

        Returns:
            The `RowCounts` of all tables.

        Raises:
            UsageError: `folder` is a file, two tables would have the same output, or standard input is among them; and
                as `predict_table`.
            InputError: the parent of `folder` does not exist; and as `predict_table`.
            RowsFailed, MissingExtra, ProcessLost: as `predict_table`.
        """
        tables = [Path(table) for table in inputs]
        jobs = [
            TableJob(
                input=InputTable(table, smiles_column, options=table_options),
                output=output,
                num_workers=num_workers,
                resume=resume,
                strict=strict,
                force=force,
                escape_formulas=escape_formulas,
                multiple_tables=True,
            )
            for table, output in zip(tables, create_output_folder(Path(folder), tables), strict=True)
        ]
        return self._predict_jobs(jobs, options, engine, progress)

    def _predict_jobs(
        self, jobs: Sequence[TableJob], options: PredictionOptions, engine: str, progress: ProgressCallback | None
    ) -> RowCounts:
        with locked_outputs(jobs):
            counts = predict_jobs(self, jobs, options, engine, callback_progress(progress), warn_caller)
        for message in filter(None, (counts.geometry_message, counts.failure_message("have no prediction"))):
            warnings.warn(MolattnWarning(message), stacklevel=3)
        return counts

    def embed_table(
        self,
        input: str | Path,
        output: str | Path,
        *,
        smiles_column: str | None = None,
        input_format: str | None = None,
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        shard: tuple[int, int] | None = None,
        num_workers: int = 0,
        resume: bool = False,
        strict: bool = False,
        force: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RowCounts:
        """Write the learned embedding of every row of a table: what `molattn embed` does.

        The output has every row and column of the input, in order, and adds `f0`, `f1`, ..., `status` and `error`. A
        .npy file has the embeddings alone, float32 (n, d), NaN for a bad row. All else is as for `predict_table`.

        Args:
            input: the table.
            output: as for `predict_table`, or .npy.
            smiles_column, input_format, table_options, shard, num_workers, resume, strict, force, progress: as for
                `predict_table`.

        Returns:
            The `RowCounts`.

        Raises:
            UsageError: a model of atoms, which has no embedding of a molecule; and as `predict_table`.
            InputError, RowsFailed, MissingExtra: as `predict_table`.

        Example::

            predictor.embed_table("in.csv", "embeddings.npy")
        """
        job = TableJob(
            input=InputTable(Path(input), smiles_column, input_format, table_options),
            output=Path(output),
            shard=shard,
            num_workers=num_workers,
            resume=resume,
            strict=strict,
            force=force,
        )
        with locked_outputs([job]):
            counts = run_jobs([job], embedding_columns(self, Path(output)), callback_progress(progress), warn_caller)
        for message in filter(None, (counts.geometry_message, counts.failure_message("have no embedding"))):
            warnings.warn(MolattnWarning(message), stacklevel=2)
        return counts
