"""Fuzzing of the readers, and the small corpus that it found.

    python -m tests.reliability.fuzz READER SECONDS

with `pip install -c constraints.txt -e ".[fuzz]"` lets atheris, which follows the branches that each input takes, look
for one for which a reader (smiles, table, config, model) raises another error than a `MolattnError`. The inputs that
reach new code go to `corpus/READER` under the folder for temporary files; `--keep N` moves N small
ones of them to `tests/reliability/corpus/READER`, where a plain test replays them.
"""

import contextlib
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
FORMATS = (".csv", ".tsv", ".smi", ".sdf", ".csv.gz", ".parquet", ".sdf.gz")


def smiles(data: bytes, _: Path) -> object:
    """The SMILES parser, with and without hydrogens, and the tokenizer."""
    from molattn.chem import molecule_graph, smiles_tokens

    text = data.decode("utf-8", "surrogateescape")
    return [molecule_graph(text, add_hs=True), smiles_tokens(text)]


def table(data: bytes, folder: Path) -> object:
    """The reader of tables; the first byte chooses the format."""
    from molattn.data import read_table

    path = folder / f"table{FORMATS[data[0] % len(FORMATS)] if data else '.csv'}"
    path.write_bytes(data[1:])
    return read_table(path)


def config(data: bytes, folder: Path) -> object:
    """The settings of a run, from TOML to their types and ranges."""
    from molattn.training.run_config import check_config, resolve

    path = folder / "config.toml"
    path.write_bytes(data)
    return check_config(resolve(path, {}, ()))


def model(data: bytes, folder: Path) -> object:
    """The reader of models: a configuration with a matching checksum, or, after a byte below 32, weights."""
    from molattn.data.schema import dumps_checksummed
    from molattn.models.artifact_file import load_artifact
    from tests.models.forms import model_folders

    intact = model_folders()["regression"]
    kept = json.loads((intact / "config.json").read_bytes())
    if data[:1] < b" ":
        (folder / "model.safetensors").write_bytes(data[1:])
        kept["sha256"]["model.safetensors"] = hashlib.sha256(data[1:]).hexdigest()
        (folder / "config.json").write_bytes(dumps_checksummed(kept, "config.json"))
    else:
        shutil.copy(intact / "model.safetensors", folder)
        with contextlib.suppress(ValueError, RecursionError):
            content = json.loads(data)
            if isinstance(content, dict) and isinstance(content.get("sha256"), dict):
                data = dumps_checksummed({**content, "sha256": kept["sha256"]}, "config.json")
        (folder / "config.json").write_bytes(data)
    return load_artifact(folder)


READERS: dict[str, Callable[[bytes, Path], object]] = {f.__name__: f for f in (smiles, table, config, model)}


def answers(reader: str, data: bytes, folder: Path) -> object:
    """The result of the reader, or the `MolattnError` that it raises; any other error is a fault."""
    from molattn.errors import MolattnError

    try:
        return READERS[reader](data, folder)
    except MolattnError as error:
        result = error
    assert "\n" not in str(result).strip(), f"more than a sentence: {result}"
    return result


def _seeds(reader: str) -> list[bytes]:
    """The initial corpus of the fuzzer, from the tests."""
    if reader == "smiles":
        from tests.chem.hostile import HOSTILE

        return [t.encode("utf-8", "surrogatepass") for t, _ in HOSTILE if isinstance(t, str) and len(t) < 2000]
    if reader == "table":
        from tests.data.test_tables import DIALECTS, OFF

        texts = [data for _, data in DIALECTS] + [data for data, _ in OFF]
        found = [b"\0" + (t.encode() if isinstance(t, str) else t) for t in texts]
        found += [bytes([k]) + data[1:] for k in range(1, 4) for data in found[:6]]
        sdf = Path(__file__).with_name("seed.sdf")
        return found + ([b"\x03" + sdf.read_bytes()] if sdf.exists() else [])
    if reader == "config":
        import tomli_w

        from molattn.training.run_config import RunConfig

        return [tomli_w.dumps(RunConfig().to_dict()).encode(), b"[training]\nepochs = 3\n"]
    from tests.models.forms import model_folders

    models = model_folders()
    configs = [(folder / "config.json").read_bytes() for folder in models.values()]
    return [*configs, b"\0" + (models["regression"] / "model.safetensors").read_bytes()]


def keep(reader: str, count: int) -> None:
    """Store the `count` smallest inputs that the fuzzer found."""
    (CORPUS / reader).mkdir(parents=True, exist_ok=True)
    found = sorted((Path(tempfile.gettempdir()) / "corpus" / reader).iterdir(), key=lambda path: path.stat().st_size)
    small = [path for path in found if path.stat().st_size <= 2000]
    for path in small[:: max(1, len(small) // count)][:count]:
        data = path.read_bytes()
        (CORPUS / reader / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


def main() -> None:
    """See above."""
    reader = sys.argv[1]
    if sys.argv[2] == "--keep":
        keep(reader, int(sys.argv[3]))
        return
    import atheris  # pyright: ignore[reportMissingImports]

    found = Path(tempfile.gettempdir()) / "corpus" / reader
    found.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="molattn-fuzz-"))
    with atheris.instrument_imports(include=["molattn", "tomllib", "json"], enable_loader_override=False):
        answers(reader, b"", folder)  # the imports
    for data in _seeds(reader):
        (found / hashlib.sha256(data).hexdigest()).write_bytes(data)
    options = [
        f"-max_total_time={sys.argv[2]}",
        f"-artifact_prefix={found}-fault-",
        "-timeout=20",
        "-rss_limit_mb=4096",
    ]

    def one(data: bytes) -> None:
        answers(reader, data, folder)

    atheris.Setup([sys.argv[0], str(found), *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
