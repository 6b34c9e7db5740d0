"""The attention of all molecules of a table: written as a tidy table, one weight per row, or summarized by head."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from molattn.data.files import atomic_write
from molattn.data.tables.columns import find_column
from molattn.data.tables.options import Warn
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError
from molattn.explain import AttentionMap, HeadSummary
from molattn.explain.attention_map import resolve_index
from molattn.inference.explainer import Explainer
from molattn.inference.row_counts import AttentionCounts
from molattn.inference.table_engine import ProgressFactory
from molattn.inference.table_job import InputTable

ROW_GROUP_SIZE = 500_000
"""The number of weights in a Parquet row group, which is collected in memory."""


def write_attention(
    explainer: Explainer,
    table: InputTable,
    output: Path,
    progress: ProgressFactory,
    warn: Warn,
    layer: int | None = None,
    head: str | None = None,
    num_workers: int = 0,
    strict: bool = False,
) -> AttentionCounts:
    """Write the attention weights of all molecules of a table; see `molattn.Predictor.attention_table`."""
    counts = AttentionCounts()
    open_maps = _open_maps(explainer, table, progress, warn, counts, num_workers=num_workers, strict=strict)
    with open_maps as maps, atomic_write(output) as file:
        writer = _WeightWriter(file, output.suffix.lower())
        for row, attention in maps:
            counts.weights += writer.write(row, attention.smiles, selected_frame(attention, layer, head))
        writer.close()
    return counts


def summarize_table(
    explainer: Explainer,
    table: InputTable,
    progress: ProgressFactory,
    warn: Warn,
    max_rows: int | None = None,
    num_workers: int = 0,
    strict: bool = False,
) -> tuple[HeadSummary, AttentionCounts]:
    """Summarize the attention of each head over a table; see `molattn.Predictor.summarize_heads`."""
    _check_attends_to_atoms(explainer)
    summary, counts = HeadSummary(), AttentionCounts()
    with _open_maps(explainer, table, progress, warn, counts, max_rows, num_workers, strict) as maps:
        for _, attention in maps:
            summary.add(attention)
    return summary, counts


def summarize_smiles(
    explainer: Explainer, smiles: Sequence[object], locations: Sequence[str], num_workers: int = 0, strict: bool = False
) -> tuple[HeadSummary, AttentionCounts]:
    """Summarize the attention of each head over a list of SMILES; messages name them by their `locations`."""
    _check_attends_to_atoms(explainer)
    summary, counts = HeadSummary(), AttentionCounts()
    results = zip(locations, explainer.attentions(smiles, num_workers), strict=True)
    for _, attention in _readable_maps(results, counts, strict):
        summary.add(attention)
    return summary, counts


def _check_attends_to_atoms(explainer: Explainer) -> None:
    if explainer.model.position_type != "atoms":
        raise UsageError(f"the model attends to {explainer.model.position_type} of a SMILES, not to atoms")


def selected_frame(attention: AttentionMap, layer: int | None = None, head: str | None = None) -> pa.Table:
    """The frame of a map, or of one layer or head of it; layers and heads keep their indices.

    Args:
        attention: the map.
        layer: its index; negative ones count from the last; None for all.
        head: its index as text, or "mean" or "max" over all heads; None for all.

    Raises:
        UsageError: there is no such layer or head.
    """
    if layer is None and head is None:
        return attention.to_frame()
    layers = [*range(attention.num_layers)]
    heads: list[Any] = [*range(attention.num_heads)]
    if layer is not None:
        layers = [resolve_index(layer, attention.num_layers, "layer")]
    if head is not None:
        name = head.strip()
        number = int(name) if re.fullmatch(r"-?\d{1,9}", name) else name
        heads = [name if name in ("mean", "max") else resolve_index(number, len(heads), "head", ", 'mean' or 'max'")]
    weights = np.stack([np.stack([attention.matrix(k, h) for h in heads]) for k in layers])
    frame = replace(attention, weights=weights).to_frame()
    for column, indices in (("layer", layers), ("head", heads)):
        values = pa.array(indices, pa.string() if isinstance(indices[0], str) else frame.schema.field(column).type)
        position = frame.schema.get_field_index(column)
        frame = frame.set_column(position, column, values.take(frame[column].combine_chunks()))
    return frame


@contextmanager
def _open_maps(
    explainer: Explainer,
    table: InputTable,
    progress: ProgressFactory,
    warn: Warn,
    counts: AttentionCounts,
    max_rows: int | None = None,
    num_workers: int = 0,
    strict: bool = False,
) -> Iterator[Iterator[tuple[int, AttentionMap]]]:
    """The maps of the molecules of a table: see `_readable_maps`."""
    locations: deque[str] = deque()
    with ExitStack() as stack:
        stream, name = stack.enter_context(table.open(explainer.read_options.max_atoms, warn))
        index = find_column(stream.columns, name, stream.source)
        _, total = table.row_range()
        if max_rows is not None:
            total = max_rows if total is None else min(max_rows, total)
        report = stack.enter_context(progress(total, 0))

        def molecules() -> Iterator[object]:
            for chunk in stream.chunks:
                locations.extend(f"{stream.line_kind} {line}" for line in chunk.lines)
                yield from stream.molecule_column(chunk, index)

        maps = explainer.attentions(islice(molecules(), max_rows), num_workers)
        stack.enter_context(closing(maps))

        def results() -> Iterator[tuple[str, AttentionMap | SmilesError]]:
            for done, result in enumerate(maps, 1):
                yield locations.popleft(), result
                report(done)

        yield _readable_maps(results(), counts, strict, f"{stream.source}: ")


def _readable_maps(
    results: Iterable[tuple[str, AttentionMap | SmilesError]], counts: AttentionCounts, strict: bool, source: str = ""
) -> Iterator[tuple[int, AttentionMap]]:
    """Row and map of each molecule that can be read, in order; `counts` receives the number of rows and failures.

    Args:
        results: for each row its location, such as "line 3", and its map or the error.
        counts: is updated row by row.
        strict: whether the first error raises RowsFailed.
        source: the start of the message if no molecule can be read.

    Raises:
        InputError: no molecule can be read.
        RowsFailed: one cannot be read, and `strict` is set.
    """
    for row, (location, result) in enumerate(results):
        counts.rows += 1
        if not isinstance(result, SmilesError):
            yield row, result
            continue
        counts.add_failure(f"{location}: {result}")
        if strict:
            raise RowsFailed(f"{counts.first_failed}; strict stops at the first row that cannot be read")
    if counts.failed == counts.rows:
        reason = f"; the first, {counts.first_failed}" if counts.failed else ": there are no rows"
        raise InputError(f"{source}no molecule can be read{reason}")


class _WeightWriter:
    """Collects frames, with row and SMILES as their first columns, into the row groups of a file."""

    def __init__(self, file: Any, suffix: str):
        self.file, self.suffix = file, suffix
        self.writer: Any = None
        self.frames: list[pa.Table] = []
        self.num_weights = 0

    def write(self, row: int, smiles: str, frame: pa.Table) -> int:
        """Add the weights of one molecule; returns how many."""
        count = len(frame)
        # float32 is the precision of the model.
        weights = frame["weight"].cast(pa.float32())
        frame = frame.set_column(frame.schema.get_field_index("weight"), "weight", weights)
        rows = pa.repeat(pa.scalar(row, pa.int64()), count)
        smiles_column = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([smiles]))
        self.frames.append(frame.add_column(0, "smiles", smiles_column).add_column(0, "row", rows))
        self.num_weights += count
        if self.num_weights >= ROW_GROUP_SIZE:
            self._flush()
        return count

    def close(self) -> None:
        """Write the rest; the file itself stays open."""
        self._flush()
        if self.writer is not None:
            self.writer.close()

    def _flush(self) -> None:
        if not self.frames:
            return
        table = pa.concat_tables(self.frames).unify_dictionaries().combine_chunks()
        if self.suffix == ".csv":
            # The CSV writer does not support dictionaries.
            plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
            table = table.cast(pa.schema(plain))
        if self.writer is None:
            if self.suffix == ".csv":
                self.writer = pyarrow.csv.CSVWriter(self.file, table.schema)
            else:
                self.writer = pq.ParquetWriter(self.file, table.schema, compression="zstd")
        (self.writer.write if self.suffix == ".csv" else self.writer.write_table)(table)
        self.frames, self.num_weights = [], 0
