"""Random tables that are hard to read, each with the expected result.

`hostile(k)` is the k-th, always the same. A valid table must give its rows, one that is clearly broken must raise an
error, and a randomly mutated one may do either.
"""

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

GOOD = ("CCO", "C", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "N#N", "F/C=C/F")
BAD = ("", "C1CC", "C(C)(C)(C)(C)C", "\u0421\u0421\u041e", "C\x00C", "C C", "nan", "[Xx]", "=1+1", "\x1b[31mC")
NOTES = (
    "",
    "x",
    "0,5",
    "1.5",
    '"',
    'say "x"',
    "a,b;c\td",
    "two\nlines",
    "a\r\nb",
    "\u20ac",
    "\ufeff",
    "=1+1",
    "\x1b[2J",
)
EITHER, RIGHT, REFUSED = "either", "right", "refused"

Chance = Random


@dataclass(frozen=True)
class Hostile:
    """A table and its expected result."""

    name: str
    """The name of the file."""
    data: bytes
    way: str
    """How it is hostile, in one or two words."""
    must: str
    """RIGHT, REFUSED or EITHER."""
    columns: tuple[str, ...] = ()
    """Of a table that is right."""
    rows: tuple[tuple[str | None, ...], ...] = ()
    """Its cells; None for one that a test cannot know, such as a canonical SMILES."""
    status: tuple[str, ...] = ()
    """ok or error, for each row."""
    delimiter: str = ","
    """Of the CSV that is written for a table that is right: a semicolon comes back."""


def hostile(number: int) -> Hostile:
    """The table with a number."""
    rng = Random(number)
    return rng.choice(_WAYS)(rng)


def _molecules(rng: Chance, count: int) -> list[str]:
    return [rng.choice(GOOD if rng.random() < 0.8 else BAD) for _ in range(count)]


def _status(smiles: Sequence[str]) -> tuple[str, ...]:
    return tuple("ok" if text in GOOD else "error" for text in smiles)


def _rows(rng: Chance, most: int = 40) -> list[list[str]]:
    smiles = _molecules(rng, rng.randrange(most))
    return [[str(i), text, rng.choice(NOTES)] for i, text in enumerate(smiles)]


def _text(rng: Chance, rows: Sequence[Sequence[str]], delimiter: str, end: str) -> str:
    """CSV in one of its dialects."""
    text = io.StringIO()
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    # Quoted here, because csv does not quote a carriage return or another delimiter.
    for row in rows:
        cells = [
            '"' + c.replace('"', '""') + '"' if quoting == csv.QUOTE_ALL or set(c) & set(',;\t"\r\n\ufeff') else c
            for c in row
        ]
        text.write(delimiter.join(cells) + end)
    return text.getvalue()


def _right_csv(rng: Chance) -> Hostile:
    delimiter, suffix = rng.choice(((",", ".csv"), (";", ".csv"), ("\t", ".csv"), ("\t", ".tsv"), (",", ".txt")))
    end = rng.choice(("\n", "\r\n", "\r"))
    columns = ["id", rng.choice(("smiles", "SMILES", "canonical_smiles")), rng.choice(("note", "a\nb", "y_pred"))]
    rows = _rows(rng)
    text = _text(rng, [columns, *rows], delimiter, end)
    way = rng.choice(("plain", "no last line end", "blank lines before", "blank lines behind", "mark", "very many"))
    if way == "no last line end":
        text = text.removesuffix(end)
    elif way == "blank lines before":
        text = end * rng.randrange(1, 20_000) + text
    elif way == "blank lines behind":
        text += end * rng.randrange(1, 20_000)
    elif way == "very many":
        more = rng.randrange(100, 3000)
        columns += [f"c{i}" for i in range(more)]
        rows = [[*row, *map(str, range(more))] for row in rows[:5]]
        text = _text(rng, [columns, *rows], delimiter, end)
    data = (b"\xef\xbb\xbf" if way == "mark" else b"") + text.encode()
    if rng.random() < 0.2:
        data, suffix = gzip.compress(data), suffix + ".gz"
    return _known(f"t{suffix}", data, f"csv, {way}", columns, rows, 1, delimiter)


def _known(
    name: str,
    data: bytes,
    way: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    place: int,
    delimiter: str = "",
) -> Hostile:
    smiles = [row[place] or "" for row in rows]
    written = ";" if delimiter == ";" else ","
    return Hostile(name, data, way, RIGHT, tuple(columns), tuple(map(tuple, rows)), _status(smiles), written)


def _broken_csv(rng: Chance) -> Hostile:
    head, rows = ["id", "smiles", "note"], [*_rows(rng), ["x", "CCO", "y"]]
    delimiter, end = rng.choice(",;\t"), rng.choice(("\n", "\r\n", "\r"))
    place = rng.randrange(len(rows))
    way = rng.choice(("short", "long", "twice", "no name", "NUL in the head", "no molecules", "two", "wide cell"))
    if way == "short":
        rows[place] = rows[place][: rng.randrange(1, 3)]
    elif way == "long":
        rows[place] = [*rows[place], "more"]
    elif way == "twice":
        head[rng.choice((0, 2))] = "smiles"
    elif way == "no name":
        head[rng.choice((0, 2))] = rng.choice(("", " "))
        data = _text(rng, [head, *rows], delimiter, end).encode()
        return _known("t.csv", data, "csv, no name", head, rows, 1, delimiter)
    elif way == "NUL in the head":
        head[2] = "no\0te"
    elif way == "no molecules":
        head[1] = "formula"
    elif way == "two":
        head[0], head[1] = "smiles_a", "smiles_b"
    else:
        rows[place] = ["x", "C", "x" * (2**24 + 2**21)]
    data = _text(rng, [head, *rows], delimiter, end).encode()
    return Hostile("t.csv", data, f"csv, {way}", REFUSED)


def _quotes(rng: Chance) -> Hostile:
    """An unclosed quote: the rest of the file is one cell."""
    rows = [f"{i},{text},x" for i, text in enumerate(rng.choices(GOOD, k=rng.randrange(1, 3000)))]
    place = rng.randrange(len(rows) + 1)
    lines = ["id,smiles,note", *rows]
    lines[place] = lines[place].replace(",", ',"', 1) if rng.random() < 0.5 else '"' + lines[place]
    return Hostile("t.csv", ("\n".join(lines) + "\n").encode(), "csv, open quote", REFUSED)


def _encodings(rng: Chance) -> Hostile:
    rows = [["id", "smiles", "note"], ["1", "CCO", "\xe9\xfc"], *_rows(rng, 10)]
    encoding = rng.choice(("latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252"))
    data = _text(rng, rows, ",", "\n").encode(encoding, "replace")
    if encoding == "utf-16-le":  # without a byte-order mark
        return Hostile("t.csv", data, f"csv, {encoding}", REFUSED)
    known = [[cell.encode(encoding, "replace").decode(encoding) for cell in row] for row in rows]
    return _known("t.csv", data, f"csv, {encoding}", known[0], known[1:], 1)


def _empty(rng: Chance) -> Hostile:
    data = rng.choice((b"", b"\n", b"\r\n" * 1000, b"\xef\xbb\xbf", b" \n", b"\0", b"\n" * 40_000))
    name = rng.choice(("t.csv", "t.tsv", "t.smi", "t.sdf", "t.parquet"))
    return Hostile(name, data, "empty", EITHER)


def _mutated(rng: Chance) -> Hostile:
    """A table with some changed, missing or duplicate bytes."""
    whole = rng.choice((_right_csv, _smi, _sdf, _parquet))(rng)
    data = bytearray(whole.data)
    for _ in range(rng.randrange(1, 12)):
        place = rng.randrange(max(1, len(data)))
        kind = rng.randrange(4)
        if kind == 0:
            data[place : place + 1] = bytes([rng.choice((0, 9, 10, 13, 34, 44, 59, 255, rng.randrange(256)))])
        elif kind == 1:
            del data[place : place + rng.randrange(1, 30)]
        elif kind == 2:
            data[place:place] = data[place : place + rng.randrange(1, 200)]
        else:
            data[place:place] = rng.choice((b'"', b"\0", b"\r", b"$$$$\n", b"M  END\n", b"\xff", b">  <x>\n", b'"",'))
    return Hostile(whole.name, bytes(data), f"changed bytes, {whole.way}", EITHER)


def _cut(rng: Chance) -> Hostile:
    """A truncated file that cannot be read without its end."""
    whole = rng.choice((_right_csv, _smi, _sdf, _parquet))(rng)
    if whole.name.endswith(".parquet"):
        return Hostile(whole.name, whole.data[: rng.randrange(len(whole.data))], "cut short", REFUSED)
    data = whole.data if whole.name.endswith(".gz") else gzip.compress(whole.data)
    name = whole.name if whole.name.endswith(".gz") else whole.name + ".gz"
    return Hostile(name, data[: rng.randrange(1, len(data) - 8)], "cut short", REFUSED)


def _smi(rng: Chance) -> Hostile:
    # A blank ends the SMILES of a line; a line without a SMILES is not a row.
    smiles = [text for text in _molecules(rng, rng.randrange(1, 40)) if text and " " not in text]
    rows = [[text, rng.choice(("", "a name", "x"))] for text in smiles or ["C"]]
    end, blank = rng.choice(("\n", "\r\n", "\r")), rng.choice((0, 1, 40_000))
    lines = [rng.choice(("\t", " ", "  ")).join(row).strip() for row in rows]
    first = rng.choice(("", "smiles name" + end))
    data = (end * blank + first + end.join(lines) + rng.choice(("", end, end * 3))).encode()
    if rng.random() < 0.2:
        return _known("t.smi.gz", gzip.compress(data), "smi, gz", ("smiles", "name"), rows, 0)
    return _known("t.smi", data, "smi", ("smiles", "name"), rows, 0)


@cache
def _block(smiles: str) -> str:
    from rdkit import Chem

    return Chem.MolToMolBlock(Chem.MolFromSmiles(smiles))


def _record(smiles: str, name: str, properties: Sequence[tuple[str, str]]) -> str:
    block = _block(smiles if smiles in GOOD else "C").split("\n", 1)[1]
    if smiles not in GOOD:
        block = block.replace("  1  0", "  7  0", 1).replace("M  END", "M  EMD")  # wrong counts, and no end
    return f"{name}\n{block}" + "".join(f">  <{k}>\n{v}\n\n" for k, v in properties) + "$$$$\n"


def _sdf(rng: Chance) -> Hostile:
    # If the structure of a record has no end, its properties cannot be separated from it.
    smiles = [rng.choice(GOOD) for _ in range(rng.randrange(1, 25))]
    names = [f"p{i}" for i in range(rng.choice((1, 3, 200)))]
    value = rng.choice(("1.5", "two\nlines", "x" * 1000, "> quoted <", "\x1b[2J"))
    if len(names) == 1:
        value = rng.choice((value, "x" * 100_000))
    text = "".join(_record(s, f"m{i}", [(n, value) for n in names]) for i, s in enumerate(smiles))
    rows = [[None, f"m{i}", *[value for _ in names]] for i in range(len(smiles))]
    data, name = text.encode(), "t.sdf"
    if rng.random() < 0.3:
        data, name = data.replace(b"\n", b"\r\n"), "t.sdf"
    if rng.random() < 0.2:
        data, name = gzip.compress(data), "t.sdf.gz"
    return Hostile(name, data, "sdf", RIGHT, ("smiles", "name", *names), tuple(map(tuple, rows)), _status(smiles))


def _broken_sdf(rng: Chance) -> Hostile:
    return sdf_of(rng.choice(SDFS))


SDFS = ("very many properties", "no $$$$", "brackets", "no end", "blank")


@cache
def sdf_of(way: str) -> Hostile:
    """An SDF that is broken in one of the ways of `SDFS`."""
    if way == "very many properties":
        records = [_record("CCO", f"m{i}", [(f"p{i}_{j}", "1") for j in range(200)]) for i in range(60)]
        return Hostile("t.sdf", "".join(records).encode(), f"sdf, {way}", REFUSED)
    if way == "no $$$$":
        data = gzip.compress(_record("CCO", "m", []).replace("$$$$\n", "x\n" * 9_000_000).encode(), 1)
        return Hostile("t.sdf.gz", data, f"sdf, {way}", REFUSED)
    if way == "brackets":
        data = _record("CCO", "m", []).replace("$$$$", ">" + "<" * 2_000_000 + "\n$$$$").encode()
        return Hostile("t.sdf", data, f"sdf, {way}", RIGHT, ("smiles", "name"), ((None, "m"),), ("ok",))
    if way == "no end":
        text = "".join(_record(s, f"m{i}", []) for i, s in enumerate(("CCO", "C1CC", "C")))
        rows = tuple((None, f"m{i}") for i in range(3))
        return Hostile("t.sdf", text.encode(), f"sdf, {way}", RIGHT, ("smiles", "name"), rows, ("ok", "error", "ok"))
    data = gzip.compress(b"\n" * 30_000_000, 1)
    return Hostile("t.sdf.gz", data, f"sdf, {way}", REFUSED)


def _parquet_bytes(columns: Mapping[str, object], **options: object) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = io.BytesIO()
    pq.write_table(pa.table(columns), whole, **options)  # pyright: ignore[reportArgumentType]
    return whole.getvalue()


def _parquet(rng: Chance) -> Hostile:
    rows = [[str(i), text, note] for i, (_, text, note) in enumerate(_rows(rng))]
    columns = {name: [row[k] for row in rows] for k, name in enumerate(("id", "smiles", "note"))}
    import pyarrow as pa

    typed: dict[str, object] = {name: pa.array(cells, pa.string()) for name, cells in columns.items()}
    data = _parquet_bytes(typed, compression=rng.choice(("snappy", "zstd", "none")))
    name = "t.parquet"
    if rng.random() < 0.2:
        data, name = gzip.compress(data), "t.parquet.gz"
    return _known(name, data, "parquet", ("id", "smiles", "note"), rows, 1)


def _bomb(rng: Chance) -> Hostile:
    return bomb_of(rng.choice(BOMBS))


BOMBS = ("dictionary", "list", "cell", "prefix", "fixed", "gz line", "gz cells", "gz rows")


@cache
def bomb_of(way: str) -> Hostile:
    """A few hundred bytes that unpack to more than the memory holds; those of "gz rows" are many, and fit."""
    import pyarrow as pa

    name = "t.parquet"
    if way == "dictionary":
        long = pa.DictionaryArray.from_arrays(pa.array([0] * 4096), pa.array(["y" * 2**20]))
        options = {"compression": "zstd", "store_schema": False}
        data = _parquet_bytes({"smiles": ["CCO"] * 4096, "x": long}, **options)
    elif way == "list":
        data = _parquet_bytes({"smiles": ["CCO"], "x": pa.array([[0] * 8_000_000], pa.list_(pa.int8()))})
    elif way == "cell":
        data = _parquet_bytes({"smiles": ["CCO"] * 8, "x": ["y" * 2**26] * 8}, compression="zstd")
    elif way == "prefix":
        encoding = {"x": "DELTA_BYTE_ARRAY", "smiles": "PLAIN"}
        columns = {"smiles": ["CCO"] * 1024, "x": ["y" * 2**19] * 1024}
        data = _parquet_bytes(columns, compression="zstd", use_dictionary=False, column_encoding=encoding)
    elif way == "fixed":
        data = _parquet_bytes({"smiles": ["CCO"] * 1024, "x": pa.nulls(1024, pa.binary(2**19))})
    elif way == "gz line":
        name, data = "t.csv.gz", gzip.compress(b"smiles,x\nCCO," + b"y" * 50_000_000 + b"\n", 1)
    elif way == "gz cells":
        name, data = "t.csv.gz", gzip.compress(b"smiles,x\n" + (b"CCO," + b"y" * 15_000_000 + b"\n") * 30, 1)
    else:
        rows = 3000
        text = "smiles,x\n" + ("CCO," + "y" * 9_000 + "\n") * rows
        truth = tuple(("CCO", "y" * 9_000) for _ in range(rows))
        data = gzip.compress(text.encode(), 1)
        return Hostile("t.csv.gz", data, f"bomb, {way}", RIGHT, ("smiles", "x"), truth, ("ok",) * rows)
    return Hostile(name, data, f"bomb, {way}", REFUSED)


def _types(rng: Chance) -> Hostile:
    """Parquet whose molecules are not strings."""
    import pyarrow as pa

    kinds: list[object] = [
        pa.array([1, 2, None]),
        pa.array([1.5, None, float("nan")]),
        pa.array([[1], [], None]),
        pa.array([b"CCO", b"\xff", None], pa.binary()),
        pa.array([{"a": 1}, None, {"a": 2}]),
        pa.nulls(3),
        pa.array([True, False, None]),
    ]
    which = rng.randrange(len(kinds))
    data = _parquet_bytes({"smiles": kinds[which], "id": ["a", "b", "c"]})
    return Hostile("t.parquet", data, "parquet, other types", EITHER)


def _junk(rng: Chance) -> Hostile:
    data = rng.randbytes(rng.choice((1, 100, 10_000)))
    name = rng.choice(("t.csv", "t.csv.gz", "t.smi", "t.sdf", "t.sdf.gz", "t.parquet", "t.parquet.gz", "t.tsv"))
    return Hostile(name, data, "junk", EITHER)


_WAYS: tuple[Callable[[Chance], Hostile], ...] = (
    *(_right_csv, _right_csv, _right_csv, _broken_csv, _broken_csv, _quotes, _encodings, _empty),
    *(_mutated, _mutated, _mutated, _cut, _smi, _sdf, _broken_sdf, _parquet, _types, _junk, _bomb),
)
