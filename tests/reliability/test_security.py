"""Lines 32 to 36: untrusted files are read, or refused, and never executed."""

import ast
import csv
import hashlib
import importlib.util
import io
import json
import pickle
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import molattn as library
from molattn.chem import molecule_graph
from molattn.data import files, read_table
from molattn.data.datasets import archives
from molattn.data.datasets.fetch import download
from molattn.data.schema import dumps_checksummed
from molattn.data.store.cache import cached_molecules
from molattn.errors import InputError, MolattnError
from molattn.explain import AttentionMap
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.training.checkpoint_file import load_checkpoint
from tests.cli.conftest import Molattn
from tests.data.fill_store import reading
from tests.data.server import certificate, serve
from tests.data.test_fetch import archive
from tests.reliability.damage import damages
from tests.reliability.score import Score
from tests.viewer.test_page import HOSTILE, Elements

ROOT = Path(__file__).parents[2]


class Payload:
    """An object that creates a file when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.marker,)


def _pickles(marker: Path) -> dict[str, bytes]:
    """Pickles that execute code when they are loaded, by file suffix."""
    evil, found = Payload(marker), {}
    for protocol in (0, 2, 5):
        found[f"{protocol}.pkl"] = pickle.dumps(evil, protocol)
    for ending, new in ((".pt", True), (".pth", False)):
        buffer = io.BytesIO()
        torch.save({"state_dict": evil}, buffer, _use_new_zipfile_serialization=new)
        found[ending] = buffer.getvalue()
    buffer = io.BytesIO()
    torch.save(
        {"state_dict": {"w": torch.zeros(1)}, "hyper_parameters": evil, "pytorch-lightning_version": "2"}, buffer
    )
    found[".ckpt"] = buffer.getvalue()
    buffer = io.BytesIO()
    np.save(buffer, np.array([evil], dtype=object), allow_pickle=True)
    found[".npy"] = buffer.getvalue()
    found[".pkl.z"] = zlib.compress(pickle.dumps(evil))
    buffer = io.BytesIO()
    hidden = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickle.dumps(evil)}
    schema = pa.schema([pa.field("smiles", pa.string(), metadata=hidden), pa.field("y", pa.float64())])
    pq.write_table(pa.table({"smiles": ["C"] * 3, "y": [1.0, 2.0, 3.0]}, schema=schema), buffer)
    found[".parquet"] = buffer.getvalue()
    return found


def test_32_the_payload_works(score: Score, tmp_path: Path) -> None:
    for name, data in _pickles(tmp_path / "ran").items():
        if name.endswith((".pkl", ".pt", ".pth", ".ckpt")):
            score.count("payloads that run where they may")
            load = pickle.loads if "pkl" in name else lambda d: torch.load(io.BytesIO(d), weights_only=False)
            load(data)  # unpickled on purpose
            score.check((tmp_path / "ran").exists(), f"{name} runs nothing anywhere")
            (tmp_path / "ran").unlink(missing_ok=True)


def test_32_pickles_are_refused(score: Score, molattn: Molattn, run: Path, table: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for number, (name, data) in enumerate(_pickles(marker).items()):
        here = tmp_path / str(number)
        (here / "checkpoint").mkdir(parents=True)
        shutil.copytree(run, here / "run")
        path, sha256 = here / f"file{name}", hashlib.sha256(data).hexdigest()
        path.write_bytes(data)
        # An attacker who replaces weights by a pickle also updates the checksums.
        config = json.loads((here / "run" / "model" / "config.json").read_text())
        config["sha256"] = {"model.safetensors": sha256}
        (here / "run" / "model" / "config.json").write_bytes(dumps_checksummed(config, "config.json"))
        (here / "run" / "model" / "model.safetensors").write_bytes(data)
        text = json.dumps({"schema": 1, "file": "epoch-0.safetensors", "sha256": sha256, "epoch": 0})
        state = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": text}
        (here / "checkpoint" / "state.json").write_text(json.dumps(state))
        (here / "checkpoint" / "epoch-0.safetensors").write_bytes(data)
        for ending in (".csv", ".tsv", ".smi", ".sdf", ".parquet", ".csv.gz", ".safetensors"):
            (here / f"table{ending}").write_bytes(data)
        doors: dict[str, Callable[[], Any]] = {
            "load a file": lambda path=path: library.load(path),
            "load a run": lambda here=here: library.load(here / "run"),
            "load a checkpoint": lambda here=here: load_checkpoint(here / "checkpoint"),
            "load a map": lambda here=here: AttentionMap.load(here / "table.safetensors"),
            **{
                f"read table{ending}": lambda here=here, ending=ending: read_table(here / f"table{ending}")
                for ending in (".csv", ".tsv", ".smi", ".sdf", ".parquet", ".csv.gz")
                if name != ".parquet" or ending != ".parquet"
            },
            "read it as it is called": lambda path=path: read_table(path),
        }
        if name == ".parquet":
            score.rows(doors.pop("read it as it is called")().rows, [["C", "1"], ["C", "2"], ["C", "3"]])
        for door, come_in in doors.items():
            score.count("pickles")
            try:
                come_in()
            except MolattnError as error:
                score.check("\n" not in str(error), f"{name}, {door}: {error}")
            except Exception as error:
                score.check(False, f"{name}, {door}: {type(error).__name__}: {error}")
            else:
                # A text table may contain any text; such a row is not a molecule.
                score.check(door.startswith("read"), f"{name}, {door}: it was read")
        commands = {
            "predict with it": ("predict", path, "--smiles", "C"),
            "predict with its run": ("predict", here / "run", "--smiles", "C"),
            "its settings": ("train", "--config", path),
            "its splits": ("train", table, "--splits-file", path, "--target-columns", "y", "-o", here / "new"),
            "resume it": ("train", "--resume", path),
        }
        for what, command in commands.items():
            score.count("pickles")
            answer = molattn(*command)
            score.check(answer.code in (2, 3), f"{name}, {what}: code {answer.code}, {answer.err}")
        if marker.exists():
            score.executed += 1
            score.check(False, f"{name}: its code ran")
            marker.unlink()


def test_32_stores_are_not_unpickled(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path))
    how, smiles = reading(molecule_graph), ["CC", "CCO", "C1CC"]
    wanted = [str(m) for m in cached_molecules(smiles, how).molecules]
    (folder,) = [path for path in (tmp_path / "molecules").iterdir() if path.is_dir()]
    for data in [*_pickles(tmp_path / "ran").values()][: score.times(1, 9)]:
        for path in sorted(folder.iterdir()):
            path.write_bytes(data)
            score.count("pickles")
            score.rows([str(m) for m in cached_molecules(smiles, how).molecules], wanted, path.name)
    score.executed += (tmp_path / "ran").exists()


def test_33_downloads(score: Score, tmp_path: Path) -> None:
    content = b"smiles,y\n" + b"CC,1\n" * 2_000
    sha256, count = hashlib.sha256(content).hexdigest(), score.times(20, 400)
    with serve({}) as home:
        for k, data in enumerate(damages(content, count)):
            home.files["a.csv"] = data
            home.content_lengths = {"a.csv": len(content)} if k % 4 == 1 else {}
            score.count("corrupt files")
            with pytest.raises(InputError):
                download(home.url("a.csv"), tmp_path / "cache" / "a.csv", sha256)
            score.check(not list((tmp_path / "cache").iterdir()), f"{[*(tmp_path / 'cache').iterdir()]}")
    for name in ("127.0.0.1", "example.org"):
        pem = certificate(tmp_path, name)
        score.count("certificates")
        with serve({"a.csv": content}, pem) as home, pytest.raises(InputError, match="its certificate is not trusted"):
            download(home.url("a.csv", "https"), tmp_path / "cache" / "a.csv", sha256)
        score.check(not list((tmp_path / "cache").iterdir()), "something stayed in the cache")


def test_34_archives(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    names = [
        "../up.csv",
        "../../../tmp/up.csv",
        "/absolute.csv",
        "..\\up.csv",
        "C:\\up.csv",
        "a/../../up.csv",
        "\x01.csv",
    ]
    for kind, file in (("zip", "a.zip"), ("tar", "a.tar.gz")):
        archive(inside / file, kind, {**dict.fromkeys(names, b"out"), "big.csv": b"\0" * 3_000_000, "a.csv": b"ok"})
        before = sorted(tmp_path.rglob("*"))
        for name in (*names, "a.csv"):
            score.count("archives")
            score.check(archives.read_archive_member(inside / file, name) in (b"out", b"ok"), name)
        refused = ["nothing.csv", *(("link", "../up") if kind == "tar" else ())]
        with monkeypatch.context() as patch:
            patch.setattr(files, "MAX_UNPACKED", 1_000_000)
            for name in (*refused, "big.csv"):
                score.count("archives")
                with pytest.raises(InputError):
                    archives.read_archive_member(inside / file, name)
        whole = (inside / file).read_bytes()
        for data in damages(whole, score.times(20, 300)):
            (inside / file).write_bytes(data)
            score.count("corrupt files")
            try:
                # If the damage is in another member, this one is unchanged.
                score.check(archives.read_archive_member(inside / file, "a.csv") == b"ok", "another content was read")
            except InputError:
                pass
            except Exception as error:
                score.check(False, f"{file}: {type(error).__name__}: {error}")
        (inside / file).write_bytes(whole)
        score.check(sorted(tmp_path.rglob("*")) == before, "something was written")
    for device in (tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE):
        with tarfile.open(inside / "d.tar", "w") as whole_tar:
            entry = tarfile.TarInfo("a.csv")
            entry.type, entry.linkname = device, "/etc/passwd"
            whole_tar.addfile(entry)
        score.count("archives")
        with pytest.raises(InputError):
            archives.read_archive_member(inside / "d.tar", "a.csv")
    with zipfile.ZipFile(inside / "p.zip", "w") as locked:
        locked.writestr("a.csv", b"x")
    data = bytearray((inside / "p.zip").read_bytes())
    for place, value in ((6, 1), (data.rindex(b"PK\x01\x02") + 8, 1), (8, 99), (data.rindex(b"PK\x01\x02") + 10, 99)):
        odd = bytearray(data)
        odd[place] = value
        (inside / "p.zip").write_bytes(odd)
        score.count("archives")
        try:
            archives.read_archive_member(inside / "p.zip", "a.csv")
        except InputError:
            continue
        except Exception as error:
            score.check(False, f"byte {place}: {type(error).__name__}: {error}")


def test_35_hostile_names_in_pages(
    score: Score, molattn: Molattn, run: Path, opened: Callable[..., Any], tmp_path: Path
) -> None:
    artifact, elements = load_artifact(run / "model"), set[str]()
    for k, name in enumerate(["y", *HOSTILE][: score.times(4, len(HOSTILE) + 1)]):
        save_artifact(tmp_path / f"{k}", replace(artifact, targets=(name,), units=(name,)))
        for command in ("view", "explain"):
            out = tmp_path / f"{k}-{command}.html"
            answer = molattn(command, tmp_path / f"{k}", "--smiles", "CCO", "-o", out)
            if not name.isprintable() and name.encode("utf-8", "ignore").decode() != name:
                score.end_to_end([f"{command} of {name!r}"])
                score.check(answer.code == 3 and "can be encoded in UTF-8" in answer.err, f"{command} of {name!r}")
                continue
            if not score.check(answer.code == 0, f"{command} of {name!r}: {answer.err}"):
                continue
            document = out.read_text(encoding="utf-8")
            found = {tag for tag, *_ in Elements(document).found}
            if command == "view":
                tab = opened(document)
                found |= set(tab.evaluate("[...document.querySelectorAll('*')].map((e) => e.localName)"))
            if name == "y":
                elements |= found
                continue
            score.end_to_end([f"{command} of {name}"])
            active = found - elements
            score.executed += bool(active)
            score.check(not active, f"{command} of {name!r}: {active}")


def test_35_formulas(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    starts = ("=", "+", "-", "@", "\t=", "\r=", " =")
    texts = [start + text for start in starts for text in ("1+1", "cmd|' /C calc'!A0", 'HYPERLINK("x")', "A1", "x\n")]
    rows = [[text, text] for text in texts]
    with open(tmp_path / "in.csv", "w", newline="") as file:
        csv.writer(file).writerows([("smiles", "=note"), *rows])
    answer = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--escape-formulas")
    score.check(answer.code == 0, answer.err)
    found = read_table(tmp_path / "out.csv")
    cells = [*found.columns, *(cell for row in found.rows for cell in row)]
    score.end_to_end(texts)
    score.rows([row[1] for row in found.rows], [f"'{text}" for text in texts], given=rows)
    for cell in cells:
        score.check(not cell.lstrip().startswith(("=", "+", "@")), f"{cell!r} is a formula")


FORBIDDEN = {
    *(
        f"{module}.{name}"
        for module in ("pickle", "marshal", "dill", "cloudpickle", "joblib")
        for name in ("load", "loads")
    ),
    *("shelve.open", "numpy.core.multiarray._reconstruct", "yaml.load", "yaml.unsafe_load", "pandas.read_pickle"),
    *("eval", "exec", "compile", "os.system", "os.popen", "ssl._create_unverified_context", "ssl.CERT_NONE"),
    *("tarfile.extractall", "shutil.unpack_archive"),
}
METHODS = {"extractall", "load_from_checkpoint", "read_pickle", "unpack_archive"}
OPTIONS = {
    ("allow_pickle", True),
    ("weights_only", False),
    ("verify", False),
    ("shell", True),
    ("check_hostname", False),
}


def _forbidden(source: str) -> list[str]:
    """The forbidden calls in a file: unpickling, executing text, or connections without verification."""
    found, tree, names = [], ast.parse(source), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                (a.asname or a.name).split(".")[0]: (a.name if a.asname else a.name.split(".")[0]) for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            text = ast.unparse(node)
            head, _, rest = text.partition(".")
            full = names.get(head, head) + (f".{rest}" if rest else "")
            if full in FORBIDDEN or (isinstance(node, ast.Attribute) and node.attr in METHODS):
                found.append(f"line {node.lineno}: {text}")
        if isinstance(node, ast.Call):
            options = {(k.arg, k.value.value) for k in node.keywords if isinstance(k.value, ast.Constant)}
            found += [f"line {node.lineno}: {name}={value}" for name, value in options & OPTIONS]
            if ast.unparse(node.func) == "torch.load" and ("weights_only", True) not in options:
                found.append(f"line {node.lineno}: torch.load without weights_only=True")
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.load(f)",
        "from pickle import loads as read\nread(b)",
        "import torch\ntorch.load(f)",
        "torch.load(f, weights_only=False)",
        "import numpy as np\nnp.load(f, allow_pickle=True)",
        "eval(text)",
        "import builtins\nexec('x')",
        "import ssl\nssl._create_unverified_context()",
        "context.verify_mode = ssl.CERT_NONE",
        "requests.get(url, verify=False)",
        "archive.extractall(folder)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_36_the_search_finds_what_is_forbidden(score: Score, source: str) -> None:
    score.count("calls")
    score.check(_forbidden(source), source)


def test_36_nothing_forbidden_is_called(score: Score) -> None:
    folders = ("molattn", "benchmarks", "docs", "tools")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 200
    for path in paths:
        score.count("files of source")
        found = _forbidden(path.read_text(encoding="utf-8"))
        score.check(not found, f"{path.relative_to(ROOT)}: {found}")


def test_36_the_audit_reports_versions_that_are_not_audited(score: Score) -> None:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None and spec.loader is not None
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    known = [{"id": "CVE-1", "fix_versions": ["2.0"]}]
    bad: dict[str, Any] = {"name": "a", "version": "1.0", "vulns": known}
    good, unknown = {**bad, "name": "b", "vulns": []}, {"name": "c", "skip_reason": "not found"}
    for packages, code, message in (
        ([good], 0, "no known vulnerability in 1 versions"),
        ([good, unknown], 0, "NOT AUDITED: c"),
        ([unknown], 0, "NOT AUDITED: the service"),
        ([bad, good, unknown], 1, "a 1.0: CVE-1, fixed in 2.0"),
        (None, 0, "NOT AUDITED: the service"),
    ):
        score.count("reports")
        found = audit.summarize(None if packages is None else {"dependencies": packages})
        score.check(found[1] == code and message in found[0], found)
