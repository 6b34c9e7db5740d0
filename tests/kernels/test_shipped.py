"""The libraries in a wheel: which one is used, and the handling of damaged and incompatible ones."""

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from molattn.kernels import processor, shipped
from molattn.kernels.compiler import source_texts
from molattn.kernels.loader import SOURCE_FOLDER
from molattn.kernels.shipped import MANIFEST_NAME, TARGETS, ShippedLibrary, shipped_libraries

ROOT = Path(__file__).parents[2]
MACHINE = platform.machine()

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or MACHINE not in TARGETS or shutil.which("gcc") is None,
    reason="libraries of wheels are built by gcc on Linux",
)

# What a process with these libraries uses, and how it differs from the reference.
USE = """
import sys, warnings
from pathlib import Path
from molattn.kernels import shipped
if len(sys.argv) > 1:
    shipped.FOLDER = Path(sys.argv[1])
warnings.simplefilter("always")
from molattn.chem import binary
from molattn.kernels import blocks, describe_kernels, edge_attention, elementwise, lookup, segments
print(describe_kernels())
print(binary.load().origin, binary.unavailable_reason())
for kernel in (blocks, edge_attention, elementwise, lookup, segments):
    if kernel.LIBRARY.loaded is not None:
        assert kernel.LIBRARY.self_test() == "", kernel
"""


def used(folder: Path | None, cache: Path, processor_flags: str = "", **environment: str) -> tuple[list[str], str]:
    """The implementations that a process reports, a line for attention and one for the reader; and its warnings."""
    code = USE
    if processor_flags:
        code = f"from molattn.kernels import processor; processor.cpu_description = lambda: {processor_flags!r}\n{USE}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *([] if folder is None else [str(folder)])],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "MOLATTN_CACHE": str(cache),
            "MOLATTN_COMPILE": "",
            "MOLATTN_MARCH": "",
            "PYTHONPATH": str(ROOT),
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines(), done.stderr


NO_COMPILER = {"PATH": "", "CC": ""}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of libraries in a wheel."""
    folder = tmp_path_factory.mktemp("built") / "shipped"
    subprocess.run(
        [sys.executable, str(ROOT / "tools/release/libraries.py"), str(folder)],
        check=True,
        capture_output=True,
        env={**os.environ, "CC": "gcc"},
    )
    return folder


@pytest.fixture
def copied(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which this process reads."""
    folder = tmp_path / "shipped"
    shutil.copytree(built, folder)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    return folder


def of_blocks(march: str = "", sources: str = "") -> list[ShippedLibrary | str]:
    true = shipped.digest_of_sources(source_texts(SOURCE_FOLDER / "blocks.c"))
    return list(shipped_libraries("blocks", sources or true, march))


def with_everything(monkeypatch: pytest.MonkeyPatch, without: str = "") -> list[str]:
    """Simulate a processor with all features except those that begin with `without`; returns the names."""
    needs = sorted(
        {
            name
            for target in json.loads((shipped.FOLDER / MANIFEST_NAME).read_text())["targets"]
            for name in target["needs"]
        }
    )
    has = [name for name in needs if not without or not name.startswith(without)]
    monkeypatch.setattr(processor, "cpu_description", lambda: " ".join(("Linux", MACHINE, "flags :", *has)))
    return needs


def test_every_c_file_is_there_for_every_level(built: Path) -> None:
    content = json.loads((built / MANIFEST_NAME).read_text())
    assert [target["name"] for target in content["targets"]] == [target.name for target in TARGETS[MACHINE]]
    stems = sorted(path.stem for path in SOURCE_FOLDER.glob("*.c"))
    for target in content["targets"]:
        assert sorted(target["libraries"]) == stems and target["needs"]
        assert all((built / about["file"]).is_file() for about in target["libraries"].values())


@pytest.mark.skipif(MACHINE != "x86_64", reason="levels of x86")
def test_the_best_level_that_the_processor_has_comes_first(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = with_everything(monkeypatch)
    assert {"avx2", "fma", "bmi1", "avx512f", "avx512vl"} <= {*needs}
    assert [found.target for found in of_blocks()] == ["x86-64-v4", "x86-64-v3"]  # pyright: ignore
    assert [found.target for found in of_blocks("x86-64-v3")] == ["x86-64-v3"]  # pyright: ignore
    assert of_blocks("znver4") == []
    with_everything(monkeypatch, without="avx512")
    first, last = of_blocks()
    assert isinstance(first, ShippedLibrary) and first.path == copied / "blocks-x86-64-v3.so"
    assert last == "this processor does not have avx512bw, which the library for x86-64-v4 needs"
    with_everything(monkeypatch, without="avx")
    assert of_blocks() == [
        "this processor does not have avx, which the library for x86-64-v4 needs",
        "this processor does not have avx, which the library for x86-64-v3 needs",
    ]
    monkeypatch.setattr(processor, "cpu_description", lambda: "of a system that does not say what it is")
    assert all(isinstance(found, str) for found in of_blocks())


def test_libraries_of_other_sources_are_rejected(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_everything(monkeypatch)
    assert of_blocks(sources="0" * 64) == [
        f"the library for {target.name} was built from another blocks.c" for target in TARGETS[MACHINE]
    ]
    assert list(shipped_libraries("no_such_file", "0" * 64)) == []
    shutil.rmtree(copied)
    shipped._read_manifest.cache_clear()
    assert of_blocks() == []


@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
def test_a_damaged_library_gets_a_warning_and_the_next_one_is_used(
    copied: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with_everything(monkeypatch)
    path = copied / f"blocks-{TARGETS[MACHINE][0].name}.so"
    data = path.read_bytes()
    path.unlink()
    if how != "gone":
        half = len(data) // 2
        path.write_bytes(data[:half] if how == "cut" else data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :])
    with pytest.warns(match=r"blocks-.*\.so is damaged: install molattn again$"):
        first, *others = of_blocks()
    assert first == f"{path} is damaged"
    assert [found.target for found in others] == [target.name for target in TARGETS[MACHINE][1:]]  # pyright: ignore


def test_a_damaged_list_gets_a_warning(copied: Path) -> None:
    (copied / MANIFEST_NAME).write_text('{"targets": [')
    with pytest.warns(match=r"libraries\.json cannot be read .*: install molattn again$"):
        assert of_blocks() == []


def suits(folder: Path) -> str:
    """The name of the best level for this processor; "" if there is none."""
    targets = json.loads((folder / MANIFEST_NAME).read_text())["targets"]
    return next((t["name"] for t in targets if not processor.missing_instruction_set(t["needs"])), "")


@pytest.mark.slow
def test_without_a_compiler_the_shipped_libraries_are_used_and_agree(built: Path, tmp_path: Path) -> None:
    name = suits(built)
    if not name:
        pytest.skip("no level suits this processor")
    for _ in range(2):  # the self-test runs, then its record is found
        lines, warned = used(built, tmp_path, **NO_COMPILER)
        assert lines[0] == f"yes, shipped for {name}" and lines[1].startswith(f"shipped for {name}")
        assert "is damaged" not in warned
    records = sorted(path.name for path in (tmp_path / "compiled").iterdir())
    assert len(records) == 6 and all("-shipped-" in record and record.endswith(".agrees") for record in records)
    assert used(built, tmp_path, **NO_COMPILER, MOLATTN_COMPILE="0")[0][0].endswith("MOLATTN_COMPILE is 0")
    file = tmp_path / "no folder"
    file.touch()
    assert used(built, file, **NO_COMPILER)[0][0] == f"yes, shipped for {name}", "a cache that cannot be used"


@pytest.mark.slow
def test_a_processor_without_a_level_and_a_damaged_library_fall_back(copied: Path, tmp_path: Path) -> None:
    name = suits(copied)
    if not name:
        pytest.skip("no level suits this processor")
    lines, _ = used(copied, tmp_path, "Linux machine flags : fpu sse sse2", **NO_COMPILER)
    assert lines[0].startswith("no, torch's operations instead, training about 3 times slower: this processor does not")
    assert lines[0].endswith("there is no C compiler: install gcc or clang")
    for path in copied.rglob("*.so"):
        path.write_bytes(path.read_bytes()[:-1])
    lines, warned = used(copied, tmp_path, **NO_COMPILER)
    assert lines[0].startswith("no, torch's operations instead") and f"blocks-{name}.so is damaged; " in lines[0]
    assert warned.count("is damaged: install molattn again") >= 6


@pytest.mark.slow
def test_libraries_that_fail_their_self_test_are_replaced_by_local_builds(copied: Path, tmp_path: Path) -> None:
    name = suits(copied)
    if not name:
        pytest.skip("no level suits this processor")
    wrong = tmp_path / "csrc"
    shutil.copytree(SOURCE_FOLDER, wrong)
    text = (wrong / "lookup.c").read_text()
    assert text.count("+=") >= 1
    (wrong / "lookup.c").write_text(text.replace("+=", "-="))
    target = next(target for target in TARGETS[MACHINE] if target.name == name)
    path = copied / f"lookup-{name}.so"
    subprocess.run(
        ["gcc", "-O1", "-std=gnu11", "-fPIC", "-shared", *target.options, "-o", str(path), str(wrong / "lookup.c")],
        check=True,
    )
    content = json.loads((copied / MANIFEST_NAME).read_text())
    for entry in content["targets"]:
        if entry["name"] == name:
            entry["libraries"]["lookup"]["sha256"] = shipped.hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            del entry["libraries"]["lookup"]
    (copied / MANIFEST_NAME).write_text(json.dumps(content))
    lines, _ = used(copied, tmp_path)
    assert "lookup.c compiled for this processor, because lookup.c disagrees with the reference: " in lines[0]
    assert f"blocks.c shipped for {name};" in lines[0]


@pytest.mark.slow
def test_the_wheel_contains_the_libraries(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("molattn", "datasets", "bases", "tools/release"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    wheels = {}
    for chosen in ("compiled", "pure"):
        done = subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / chosen), str(source)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "MOLATTN_WHEEL": chosen, "CC": "gcc"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheels[chosen],) = (tmp_path / chosen).glob("*.whl")
    assert wheels["pure"].name.endswith("-py3-none-any.whl")
    assert "-py3-none-manylinux_2_" in wheels["compiled"].name and wheels["compiled"].name.endswith(f"_{MACHINE}.whl")
    names = {chosen: {*zipfile.ZipFile(path).namelist()} for chosen, path in wheels.items()}
    added = {name for name in names["compiled"] - names["pure"] if name.startswith("molattn/")}
    assert added and all(name.startswith("molattn/kernels/libraries/") for name in added)
    assert "molattn/kernels/csrc/blocks.c" in names["compiled"]
    tree = tmp_path / "tree"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(tree),
        str(wheels["compiled"]),
    ]
    subprocess.run(install, check=True)
    name = suits(tree / "molattn/kernels/libraries")
    lines, _ = used(None, tmp_path / "cache", **NO_COMPILER, PYTHONPATH=str(tree))
    assert lines[0] == f"yes, shipped for {name}" if name else lines[0].startswith("no, ")
