"""`molattn attention`: the attention weights of a whole table of molecules, as one tidy table."""

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molattn.cli.options import Force, InputFormat, MoleculeTable, NumWorkers, Quiet, Run, SmilesColumn
from molattn.cli.start import predictor_of
from molattn.cli.terminal import tell, warn
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from molattn.data.tables.row_stream import RowStream
    from molattn.explain import AttentionMap
    from molattn.inference import Predictor

_WEIGHTS = 500_000
"""Weights in a row group: what is held in memory at a time."""


def attention(
    run: Run,
    table: MoleculeTable,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the weights go: .parquet or .csv.", show_default=False)
    ],
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    layer: Annotated[
        int | None, typer.Option(help="One layer alone; negative numbers count from the last.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="One head alone, or the mean or max of all.", show_default=False)
    ] = None,
    num_workers: NumWorkers = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a row that cannot be read.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write who attends to whom in every molecule of a table, one weight a row.

    `molattn attention runs/esol in.csv -o maps.parquet` has the columns row (of in.csv, from 0), smiles, layer, head,
    receiver, sender, their labels and elements, bond, path_length and weight. A molecule of 25 atoms has 625 weights
    for every layer and head: `--layer -1 --head mean` keeps one of them. Tables may be of any length. A row that
    cannot be read is left out, counted and named.
    """
    if output.suffix.lower() not in (".parquet", ".csv"):
        raise UsageError(f"{output.name}: weights are written as .parquet or .csv; name the file so")
    if not output.absolute().parent.is_dir():
        raise InputError(f"there is no folder {output.absolute().parent}: create it first")
    if output.exists() and not (force and output.is_file()):
        raise UsageError(f"{output} exists: give another --output, or --force to replace it")
    from molattn.cli.rows_progress import RowsProgress
    from molattn.data import guess_smiles_column
    from molattn.data.files import atomic_write
    from molattn.data.tables.readers import count_rows, open_stream
    from molattn.data.tables.table import find_column

    predictor = predictor_of(run)
    failed: list[str] = []
    done = weights = 0
    with ExitStack() as stack:
        stream = stack.enter_context(open_stream(table, input_format))
        name = smiles_column or stream.smiles_column or guess_smiles_column(stream.columns)
        index = find_column(stream.columns, name, stream.source)
        total = count_rows(table, input_format) if table.is_file() else None
        file = stack.enter_context(atomic_write(output))
        told = stack.enter_context(RowsProgress(total, quiet))
        writer = _Writer(file, output.suffix.lower())
        for row, place, found in _maps(predictor, stream, index, num_workers):
            if isinstance(found, SmilesError):
                failed.append(f"{stream.place} {place}: {found.reason}")
                if strict:
                    raise RowsFailed(f"{failed[0]}; --strict stops at the first row that cannot be read")
            else:
                weights += writer.write(row, found.smiles, _chosen(found, layer, head))
            done = row + 1
            told(done)
        if not weights:
            why = f"; the first, {failed[0]}" if failed else ": it has no rows"
            raise InputError(f"{stream.source}: no molecule can be read{why}")
        writer.close()
    if not quiet:
        tell(f"{weights:,} weights of {done - len(failed)} molecules, written to {output}")
    if failed:
        count = f"{len(failed)} of {done} rows have no weights"
        warn(f"{count}; the first, {failed[0]}")


def _maps(
    predictor: "Predictor", stream: "RowStream", index: int, num_workers: int
) -> Iterator[tuple[int, object, "AttentionMap | SmilesError"]]:
    """Row, place and map of every molecule, in order."""
    places: deque[tuple[int, object]] = deque()

    def molecules() -> Iterator[object]:
        for chunk in stream.chunks:
            places.extend((chunk.start + i, place) for i, place in enumerate(chunk.places))
            yield from stream.molecules(chunk, index)

    with closing(predictor.attentions(molecules(), num_workers)) as maps:
        for found in maps:
            yield *places.popleft(), found


def _chosen(found: "AttentionMap", layer: int | None, head: str | None) -> "pa.Table":
    """The frame of a map, or of the layer and the head that are asked for, under their own numbers."""
    from dataclasses import replace

    import numpy as np
    import pyarrow as pa

    layers, heads = range(found.num_layers), range(found.num_heads)
    if layer is not None:
        if not -len(layers) <= layer < len(layers):
            raise UsageError(
                f"--layer is from 0 to {len(layers) - 1}, not {layer}; negative numbers count from the last"
            )
        layers = [layers[layer]]
    of_heads: list[Any] = [*heads]
    if head is not None:
        word = head.strip()
        if word not in ("mean", "max") and not (word.lstrip("-").isdigit() and -len(heads) <= int(word) < len(heads)):
            raise UsageError(f"--head is from 0 to {len(heads) - 1}, mean or max, not {head!r}")
        of_heads = [word] if word in ("mean", "max") else [heads[int(word)]]
    if layer is None and head is None:
        return found.to_frame()
    weights = np.stack([np.stack([found.matrix(k, h) for h in of_heads]) for k in layers])
    frame = replace(found, weights=weights).to_frame()
    numbers = pa.array(np.array([*layers])[frame["layer"].to_numpy()], frame.schema.field("layer").type)
    names = pa.array(np.array([*map(str, of_heads)])[frame["head"].to_numpy()])
    frame = frame.set_column(frame.schema.get_field_index("layer"), "layer", numbers)
    kind = pa.string() if head in ("mean", "max") else frame.schema.field("head").type
    return frame.set_column(frame.schema.get_field_index("head"), "head", names.cast(kind))


class _Writer:
    """Frames, with row and SMILES in front, gathered into row groups of a file."""

    def __init__(self, file: Any, suffix: str):
        self.file, self.suffix = file, suffix
        self.inner: Any = None
        self.waiting: list[pa.Table] = []
        self.held = 0

    def write(self, row: int, smiles: str, frame: "pa.Table") -> int:
        """Take the weights of one molecule; how many they are."""
        import pyarrow as pa

        count, place = len(frame), frame.schema.get_field_index("weight")
        # What the model computed with; wider numbers would only be longer.
        frame = frame.set_column(place, "weight", frame["weight"].cast(pa.float32()))
        rows = pa.repeat(pa.scalar(row, pa.int64()), count)
        names = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([smiles]))
        self.waiting.append(frame.add_column(0, "smiles", names).add_column(0, "row", rows))
        self.held += count
        if self.held >= _WEIGHTS:
            self._flush()
        return count

    def close(self) -> None:
        """Write what is still held back; the file itself stays open."""
        self._flush()
        if self.inner is not None:
            self.inner.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet as pq

        if not self.waiting:
            return
        whole = pa.concat_tables(self.waiting).unify_dictionaries().combine_chunks()
        if self.suffix == ".csv":
            # The CSV writer knows no dictionaries.
            plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in whole.schema]
            whole = whole.cast(pa.schema(plain))
        if self.inner is None:
            if self.suffix == ".csv":
                self.inner = pyarrow.csv.CSVWriter(self.file, whole.schema)
            else:
                self.inner = pq.ParquetWriter(self.file, whole.schema, compression="zstd")
        (self.inner.write if self.suffix == ".csv" else self.inner.write_table)(whole)
        self.waiting, self.held = [], 0
