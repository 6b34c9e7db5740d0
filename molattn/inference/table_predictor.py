"""Predictions, embeddings and attention weights of whole tables, of any length, in bounded memory."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.errors import MolattnWarning
from molattn.inference.base_predictor import DEFAULT_OPTIONS, PredictionOptions
from molattn.inference.explainer import Explainer
from molattn.inference.row_predictor import RowPredictor, embedding_task
from molattn.inference.rows import AttentionCounts, RowCounts
from molattn.inference.table_engine import ProgressCallback, callback_progress, predict_jobs, run_jobs, warn_user
from molattn.inference.table_job import TableJob, check_attention_output, create_output_folder, locked_outputs

if TYPE_CHECKING:
    from molattn.explain import HeadSummary


class TablePredictor(RowPredictor, Explainer):
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
            num_workers: processes that read molecules.
            engine: "local", or "ray" for the processors of the Ray cluster in RAY_ADDRESS, or of this machine.
            resume: continue with an unfinished output.
            strict: raise at the first row without a prediction.
            force: replace the output.
            escape_formulas: put an apostrophe before cells that a spreadsheet would read as a formula.
            progress: called with the number of rows read so far, and the number of all rows, None if unknown.

        Returns:
            The `RowCounts`: `.rows`, `.failed`, `.first_failed` and so on.

        Raises:
            UsageError: an output that exists, a column or option that does not exist, or another process that writes
                to the output.
            InputError: a table that cannot be read, or unfinished parts of another input, model or options.
            RowsFailed: a row has no prediction, and `strict` is set.
            MissingExtra, ProcessLost: Ray is not installed, or its processes died repeatedly.

        Example::

            predictor = molattn.load("runs/esol")
            counts = predictor.predict_table("in.csv", "out.csv", num_workers=4, resume=True)
            counts.rows, counts.failed  # 100000, 3
        """
        job = TableJob(
            input=Path(input),
            output=Path(output),
            smiles_column=smiles_column,
            input_format=input_format,
            table_options=table_options,
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
        """
        tables = [Path(table) for table in inputs]
        jobs = [
            TableJob(
                input=table,
                output=output,
                smiles_column=smiles_column,
                table_options=table_options,
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
            counts = predict_jobs(self, jobs, options, engine, callback_progress(progress), warn_user)
        for message in filter(None, (counts.geometry_message, counts.failure_message("prediction"))):
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

        Raises:
            UsageError: an atom-level model, which has no embedding of a molecule; and as `predict_table`.
            InputError, RowsFailed: as `predict_table`.

        Example::

            predictor.embed_table("in.csv", "embeddings.npy")
        """
        job = TableJob(
            input=Path(input),
            output=Path(output),
            smiles_column=smiles_column,
            input_format=input_format,
            table_options=table_options,
            shard=shard,
            num_workers=num_workers,
            resume=resume,
            strict=strict,
            force=force,
        )
        with locked_outputs([job]):
            counts = run_jobs([job], embedding_task(self, Path(output)), callback_progress(progress), warn_user)
        for message in filter(None, (counts.geometry_message, counts.failure_message("embedding"))):
            warnings.warn(MolattnWarning(message), stacklevel=2)
        return counts

    def attention_table(
        self,
        input: str | Path,
        output: str | Path,
        *,
        smiles_column: str | None = None,
        input_format: str | None = None,
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        layer: int | None = None,
        head: int | str | None = None,
        num_workers: int = 0,
        strict: bool = False,
        force: bool = False,
        progress: ProgressCallback | None = None,
    ) -> AttentionCounts:
        """Write the attention weights of all molecules of a table, one per row: what `molattn attention` does.

        The columns are row (of the input, from 0), smiles, layer, head, receiver, sender, their labels and elements,
        bond, path_length and weight. A row of the input that cannot be read is left out; a `MolattnWarning` reports
        how many there are.

        Args:
            input, smiles_column, input_format, table_options, num_workers, strict, force, progress: as for
                `predict_table`.
            output: .parquet or .csv.
            layer: one layer; negative numbers count from the last; None for all.
            head: one head, or "mean" or "max" over all heads; None for all.

        Returns:
            The `AttentionCounts`: `.rows`, `.failed`, `.first_failed` and `.weights`.

        Raises:
            UsageError: an output that exists or has another suffix; a layer, head or column that does not exist.
            InputError: a table that cannot be read, or without a molecule that can be read.
            RowsFailed: a row cannot be read, and `strict` is set.

        Example::

            predictor.attention_table("in.csv", "maps.parquet", layer=-1, head="mean")
        """
        from molattn.inference.attention_table import write_attention  # imports pyarrow

        check_attention_output(Path(output), force, Path(input))
        job = TableJob(
            input=Path(input),
            output=Path(output),
            smiles_column=smiles_column,
            input_format=input_format,
            table_options=table_options,
            num_workers=num_workers,
            strict=strict,
        )
        head = None if head is None else str(head)
        counts = write_attention(self, job, callback_progress(progress), warn_user, layer, head)
        if counts.failed:
            warnings.warn(MolattnWarning(counts.failure_message("have no weights")), stacklevel=2)
        return counts

    def summarize_heads(
        self,
        input: str | Path,
        *,
        smiles_column: str | None = None,
        input_format: str | None = None,
        table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
        max_rows: int | None = None,
        num_workers: int = 0,
        strict: bool = False,
        progress: ProgressCallback | None = None,
    ) -> "HeadSummary":
        """Summarize what each head attends to over the molecules of a table: what `molattn heads` does.

        A row that cannot be read is left out; a `MolattnWarning` reports how many there are.

        Args:
            input, smiles_column, input_format, table_options, num_workers, strict, progress: as for `predict_table`.
            max_rows: read only this many rows, the first ones; None for all.

        Returns:
            A `HeadSummary`: `.to_frame()`, `.save("heads.csv")`, `.save("heads.svg")`.

        Raises:
            UsageError: a column that does not exist, or a model that attends to tokens.
            InputError: a table that cannot be read, or without a molecule that can be read.
            RowsFailed: a row cannot be read, and `strict` is set.

        Example::

            predictor.summarize_heads("in.csv").save("heads.svg")
        """
        from molattn.inference.attention_table import summarize_table  # imports pyarrow

        job = TableJob(
            input=Path(input),
            output=None,
            smiles_column=smiles_column,
            input_format=input_format,
            table_options=table_options,
            num_workers=num_workers,
            strict=strict,
        )
        summary, counts = summarize_table(self, job, callback_progress(progress), warn_user, max_rows)
        if counts.failed:
            warnings.warn(MolattnWarning(counts.failure_message("are left out")), stacklevel=2)
        return summary
