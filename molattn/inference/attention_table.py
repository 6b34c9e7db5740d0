"""The attention of all molecules of a table: written as one tidy table, one weight per row, or summarised by head."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from molattn.data import guess_smiles_column
from molattn.data.files import atomic_write
from molattn.data.tables.columns import find_column
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.readers import count_rows, open_stream
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError
from molattn.explain import AttentionMap, HeadSummary
from molattn.inference.explainer import Explainer
from molattn.inference.rows import AttentionCounts
from molattn.inference.table_engine import ProgressFactory, Warn, warn_user

ROW_GROUP = 500_000
"""The number of weights in a row group, which is held in memory at a time."""


def write_attention(
    explainer: Explainer,
    input: Path,
    output: Path,
    progress: ProgressFactory,
    *,
    smiles_column: str | None = None,
    input_format: str | None = None,
    table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
    warn: Warn = warn_user,
    layer: int | None = None,
    head: str | None = None,
    num_workers: int = 0,
    strict: bool = False,
) -> AttentionCounts:
    """Write the attention weights of all molecules of a table; see `molattn.Predictor.attention_table`."""
    counts = AttentionCounts()
    with ExitStack() as stack:
        maps = stack.enter_context(
            _open_maps(
                explainer,
                input,
                progress,
                counts,
                num_workers,
                strict,
                smiles_column=smiles_column,
                input_format=input_format,
                table_options=table_options,
                warn=warn,
            )
        )
        writer = _FrameWriter(stack.enter_context(atomic_write(output)), output.suffix.lower())
        for row, found in maps:
            counts.weights += writer.write(row, found.smiles, select_weights(found, layer, head))
        writer.close()
    return counts


def summarize_table(
    explainer: Explainer,
    input: Path,
    progress: ProgressFactory,
    *,
    smiles_column: str | None = None,
    input_format: str | None = None,
    table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
    warn: Warn = warn_user,
    max_rows: int | None = None,
    num_workers: int = 0,
    strict: bool = False,
) -> tuple[HeadSummary, AttentionCounts]:
    """Summarise the attention of each head over a table; see `molattn.Predictor.summarize_heads`."""
    _check_atoms(explainer)
    summary, counts = HeadSummary(), AttentionCounts()
    with _open_maps(
        explainer,
        input,
        progress,
        counts,
        num_workers,
        strict,
        max_rows,
        smiles_column=smiles_column,
        input_format=input_format,
        table_options=table_options,
        warn=warn,
    ) as maps:
        for _, found in maps:
            summary.add(found)
    return summary, counts


def summarize_smiles(
    explainer: Explainer, smiles: Sequence[object], places: Sequence[str], num_workers: int = 0, strict: bool = False
) -> tuple[HeadSummary, AttentionCounts]:
    """Summarise the attention of each head over a list of SMILES, which `places` name in messages."""
    _check_atoms(explainer)
    summary, counts = HeadSummary(), AttentionCounts()
    for place, found in zip(places, explainer.attentions(smiles, num_workers), strict=True):
        counts.rows += 1
        if not isinstance(found, SmilesError):
            summary.add(found)
            continue
        counts.failed += 1
        counts.first_failed = counts.first_failed or f"{place}: {found}"
        if strict:
            raise RowsFailed(f"{counts.first_failed}; --strict stops at the first SMILES that cannot be read")
    if counts.failed == counts.rows:
        raise InputError(f"no molecule can be read; the first, {counts.first_failed}")
    return summary, counts


def _check_atoms(explainer: Explainer) -> None:
    if explainer.model.position_type != "atoms":
        raise UsageError(f"the model attends to the {explainer.model.position_type} of a SMILES: it sees no atoms")


def select_weights(attention: AttentionMap, layer: int | None = None, head: str | None = None) -> pa.Table:
    """The frame of a map, or of one layer or head of it; layers and heads keep their indices.

    Args:
        attention: the map.
        layer: its index; negative ones count from the last; None for all.
        head: its index as text, or "mean" or "max" over all heads; None for all.

    Raises:
        UsageError: there is no such layer or head.
    """
    layers, heads = range(attention.num_layers), range(attention.num_heads)
    if layer is not None:
        if not -len(layers) <= layer < len(layers):
            raise UsageError(
                f"--layer is from 0 to {len(layers) - 1}, not {layer}; negative numbers count from the last"
            )
        layers = [layers[layer]]
    selected: list[Any] = [*heads]
    if head is not None:
        word = head.strip()
        if word not in ("mean", "max") and not (word.lstrip("-").isdigit() and -len(heads) <= int(word) < len(heads)):
            raise UsageError(f"--head is from 0 to {len(heads) - 1}, mean or max, not {head!r}")
        selected = [word] if word in ("mean", "max") else [heads[int(word)]]
    if layer is None and head is None:
        return attention.to_frame()
    weights = np.stack([np.stack([attention.matrix(k, h) for h in selected]) for k in layers])
    frame = replace(attention, weights=weights).to_frame()
    numbers = pa.array(np.array([*layers])[frame["layer"].to_numpy()], frame.schema.field("layer").type)
    names = pa.array(np.array([*map(str, selected)])[frame["head"].to_numpy()])
    frame = frame.set_column(frame.schema.get_field_index("layer"), "layer", numbers)
    kind = pa.string() if isinstance(selected[0], str) else frame.schema.field("head").type
    return frame.set_column(frame.schema.get_field_index("head"), "head", names.cast(kind))


@contextmanager
def _open_maps(
    explainer: Explainer,
    input: Path,
    progress: ProgressFactory,
    counts: AttentionCounts,
    num_workers: int,
    strict: bool,
    max_rows: int | None = None,
    *,
    smiles_column: str | None,
    input_format: str | None,
    table_options: TableOptions,
    warn: Warn,
) -> Iterator[Iterator[tuple[int, AttentionMap]]]:
    """Row and map of each molecule of a table, in order; `counts` gets the rows that cannot be read.

    Raises:
        InputError: no molecule can be read.
        RowsFailed: one cannot be read, and `strict` is set.
    """
    places: deque[tuple[int, object]] = deque()
    with ExitStack() as stack:
        stream = stack.enter_context(open_stream(input, input_format, table_options, warn=warn))
        name = smiles_column or stream.smiles_column or guess_smiles_column(stream.columns)
        index = find_column(stream.columns, name, stream.source)
        total = count_rows(input, input_format, table_options) if input.is_file() else None
        if max_rows is not None:
            total = max_rows if total is None else min(max_rows, total)
        report = stack.enter_context(progress(total, 0))

        def molecules() -> Iterator[object]:
            for chunk in stream.chunks:
                places.extend((chunk.start + i, place) for i, place in enumerate(chunk.lines))
                yield from stream.molecule_column(chunk, index)

        def maps() -> Iterator[tuple[int, AttentionMap]]:
            for found in stack.enter_context(closing(explainer.attentions(islice(molecules(), max_rows), num_workers))):
                row, place = places.popleft()
                counts.rows += 1
                if isinstance(found, SmilesError):
                    counts.failed += 1
                    counts.first_failed = counts.first_failed or f"{stream.unit} {place}: {found}"
                    if strict:
                        raise RowsFailed(f"{counts.first_failed}; --strict stops at the first row that cannot be read")
                else:
                    yield row, found
                report(counts.rows)
            if counts.failed == counts.rows:
                why = f"; the first, {counts.first_failed}" if counts.failed else ": it has no rows"
                raise InputError(f"{stream.source}: no molecule can be read{why}")

        yield maps()


class _FrameWriter:
    """Collects frames, with row and SMILES as their first columns, into the row groups of a file."""

    def __init__(self, file: Any, suffix: str):
        self.file, self.suffix = file, suffix
        self.writer: Any = None
        self.frames: list[pa.Table] = []
        self.num_weights = 0

    def write(self, row: int, smiles: str, frame: pa.Table) -> int:
        """Add the weights of one molecule; returns how many."""
        count, place = len(frame), frame.schema.get_field_index("weight")
        # The model's precision: wider numbers would only be longer.
        frame = frame.set_column(place, "weight", frame["weight"].cast(pa.float32()))
        rows = pa.repeat(pa.scalar(row, pa.int64()), count)
        names = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([smiles]))
        self.frames.append(frame.add_column(0, "smiles", names).add_column(0, "row", rows))
        self.num_weights += count
        if self.num_weights >= ROW_GROUP:
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
