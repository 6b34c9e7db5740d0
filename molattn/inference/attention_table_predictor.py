"""Attention weights and head summaries of tables of any length, in bounded memory."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.errors import MolattnWarning, warn_caller
from molattn.inference.engines import ProgressCallback, callback_progress
from molattn.inference.explainer import Explainer
from molattn.inference.row_counts import AttentionCounts
from molattn.inference.table_job import InputTable, check_attention_output

if TYPE_CHECKING:
    from molattn.explain import HeadSummary


class AttentionTablePredictor(Explainer):
    """The part of a `Predictor` that explains the molecules of tables."""

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
            InputError: a table that cannot be read, or without a molecule that can be read, or an output folder that
                does not exist.
            RowsFailed: a row cannot be read, and `strict` is set.
            MissingExtra: openpyxl is not installed, for .xlsx.

        Example::

            predictor.attention_table("in.csv", "maps.parquet", layer=-1, head="mean")
        """
        from molattn.inference.attention_table import write_attention  # imports pyarrow

        check_attention_output(Path(output), force, Path(input))
        table = InputTable(Path(input), smiles_column, input_format, table_options)
        head = None if head is None else str(head)
        counts = write_attention(
            self, table, Path(output), callback_progress(progress), warn_caller, layer, head, num_workers, strict
        )
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
            MissingExtra: openpyxl is not installed, for .xlsx.

        Example::

            predictor.summarize_heads("in.csv").save("heads.svg")
        """
        from molattn.inference.attention_table import summarize_table  # imports pyarrow

        table = InputTable(Path(input), smiles_column, input_format, table_options)
        summary, counts = summarize_table(
            self, table, callback_progress(progress), warn_caller, max_rows, num_workers, strict
        )
        if counts.failed:
            warnings.warn(MolattnWarning(counts.failure_message("are left out")), stacklevel=2)
        return summary
