"""Building and loading of C files: reasons for failures, rebuilds, and libraries that are rejected."""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from molattn.cache import check_private_folder, install_file, is_intact
from molattn.kernels import compiler, edge_attention, loader, processor
from molattn.kernels.edge_attention import AttentionTask, Graphs

SOURCE = loader.SOURCE_FOLDER / "edge_attention.c"
SMALL = SOURCE.with_name("lookup.c")
WHY = f"from molattn.kernels import loader as c; from pathlib import Path; s = Path({str(SMALL)!r});"
WHY += "loaded = c.load_library(s); print(loaded.library is None, loaded.unavailable_reason)"

pytestmark = pytest.mark.skipif(
    loader.load_library(SOURCE).library is None, reason=f"no library: {loader.load_library(SOURCE).unavailable_reason}"
)


def output_of(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


def compiler_script(path, script):
    """A compiler that prints its macros, and runs `script` instead of building."""
    path.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) exec cc "$@";; esac\n{script}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"MOLATTN_COMPILE": "0"}, "True MOLATTN_COMPILE is 0"),
        ({"PATH": "", "CC": ""}, "True there is no C compiler"),
        ({"MOLATTN_MARCH": "../x; y"}, "True MOLATTN_MARCH is '../x; y', which is not the name of a processor"),
        ({"MOLATTN_SANITIZE": "1", "LD_PRELOAD": ""}, "True MOLATTN_SANITIZE is 1, but LD_PRELOAD does not contain"),
        ({"CC": "no-such-cc -m64"}, "True CC names 'no-such-cc', which is not found: install it, or unset it"),
        ({"CC": "gcc 'x"}, 'True CC is "gcc \'x", which is not a command: No closing quotation'),
    ],
)
def test_unavailable_reason(environment, why):
    assert output_of(WHY, **environment).startswith(why)


def test_a_compiler_that_fails_is_reported_and_not_tried_again(tmp_path):
    broken = compiler_script(
        tmp_path / "broken-cc", f"echo called >> {tmp_path}/count; echo 'no such thing' >&2; exit 1"
    )
    environment = {"CC": broken, "MOLATTN_CACHE": str(tmp_path / "cache")}
    assert output_of(WHY, **environment) == f"True {broken} fails: no such thing"
    again = output_of(WHY, **environment)
    (failed,) = (tmp_path / "cache" / "compiled").glob("*.failed")
    assert again.startswith(f"True {broken} fails: no such thing (on 20") and f"remove {failed} to try again" in again
    attempts = (tmp_path / "count").read_text()
    os.utime(failed, (time.time() - 90_000,) * 2)  # of the day before
    output_of(WHY, **environment)
    assert (tmp_path / "count").read_text() == 2 * attempts


def test_a_compiler_may_have_options(tmp_path):
    recorder = tmp_path / "my-cc"
    recorder.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/options\nshift\nexec "$@"\n')
    recorder.chmod(0o755)
    environment = {"CC": f"{recorder} -m64 cc", "MOLATTN_CACHE": str(tmp_path / "cache")}
    assert output_of(WHY, **environment) == "False"
    assert set((tmp_path / "options").read_text().split()) == {"-m64"}
    (library,) = (tmp_path / "cache" / "compiled").glob("*.so")
    assert compiler._compiler_identity([str(recorder), "-m64"]) != compiler._compiler_identity([str(recorder)])
    assert library.is_file()


def test_a_failed_build_is_tried_again_in_another_environment(tmp_path):
    picky = compiler_script(
        tmp_path / "picky-cc", 'case "$CPATH" in *there*) exec cc "$@";; esac\necho "not found" >&2; exit 1'
    )
    environment = {"CC": picky, "MOLATTN_CACHE": str(tmp_path / "cache")}
    assert output_of(WHY, **environment) == f"True {picky} fails: not found"
    assert output_of(WHY, **environment, CPATH=str(tmp_path / "there")) == "False"


@pytest.mark.parametrize("when", ["at once", "when it builds"])
def test_a_compiler_that_hangs_is_tried_once(tmp_path, monkeypatch, when):
    # Like one that waits for a licence: its child process would continue and keep its output open.
    hanging = compiler_script(tmp_path / "cc", "sleep 1000; echo never")
    if when == "at once":
        Path(hanging).write_text("#!/bin/sh\nsleep 1000; echo never\n")
    monkeypatch.setattr(compiler, "_BUILD_SECONDS", 0.5)
    monkeypatch.setattr(compiler, "_PROBE_SECONDS", 0.5 if when == "at once" else 20)
    start = time.monotonic()
    with pytest.raises(OSError, match="does not end within 0.5 s$"):
        compiler.build(SMALL, tmp_path / "compiled", [hanging])
    for source in (SMALL, SOURCE):
        monkeypatch.setattr(compiler, "_run", lambda *_: pytest.fail("the compiler was called again"))
        with pytest.raises(
            OSError, match=r"does not end within 0.5 s \(on .*; remove .*compiler-.*failed to try again"
        ):
            compiler.build(source, tmp_path / "compiled", [hanging])
    assert time.monotonic() - start < 60
    assert not list((tmp_path / "compiled").glob("*.new"))


def test_a_cache_writable_by_others_is_rejected(tmp_path):
    folder = tmp_path / "compiled"
    folder.mkdir()
    folder.chmod(0o777)
    assert output_of(WHY, MOLATTN_CACHE=str(tmp_path)).startswith(f"True others may write to {folder}")
    folder.chmod(0o700)
    tmp_path.chmod(0o777)
    assert output_of(WHY, MOLATTN_CACHE=str(tmp_path)).startswith(f"True others may write to {tmp_path}, where")
    tmp_path.chmod(0o1777)  # like /tmp: no user can move files of another
    check_private_folder(folder)


def test_links_to_folders_are_followed(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    check_private_folder(tmp_path / "link")
    (tmp_path / "real").chmod(0o722)
    with pytest.raises(OSError, match="others may write to"):
        check_private_folder(tmp_path / "link")


@pytest.mark.parametrize("whose", ["folder", "parent"])
def test_a_folder_of_another_user_is_rejected(tmp_path, monkeypatch, whose):
    folder = tmp_path / "cache" / "compiled"
    folder.mkdir(parents=True, mode=0o700)
    true, other = Path.stat, (folder if whose == "folder" else folder.parent).resolve()

    def stat(path, **options):  # only root can give files away
        about = [*true(path, **options)]
        about[4] = 12345 if path == other else about[4]
        return os.stat_result(about)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(OSError, match="belongs to another user" if whose == "folder" else "others may write to"):
        check_private_folder(folder)


def copy_sources(folder, *changes):
    """Copy the C files to another folder with changes to `edge_attention.c`; returns its path."""
    shutil.copytree(loader.SOURCE_FOLDER, folder / "csrc")
    source = folder / "csrc" / "edge_attention.c"
    text = source.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    source.write_text(text)
    return source


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "  float scale;",
            "  int64_t more;\n  float scale;",
            "AttentionTask.scale is at byte 32, of 4 bytes in C and at byte 24",
        ),
        (
            "float *w_ke, *w_ve;  ",
            "float *w_ve, *w_ke;  ",
            "AttentionTask.w_ke is at byte 72, of 8 bytes in C and at byte 64, of 8 bytes",
        ),
        (
            "int64_t accumulate_d_e;",
            "int64_t accumulate_d_e, more;",
            "AttentionTask has 296 bytes in C and 288 in Python",
        ),
        (
            "int64_t count, n;  ",
            "int32_t count, n;  ",
            "Graphs.count is at byte 0, of 4 bytes in C and at byte 0",
        ),
        (
            "FIELD(Graphs, dropout_mask) ",
            "",
            "Graphs.dropout_mask is missing in C and at byte 40, of 8 bytes",
        ),
        (
            "LAYOUT(Graphs,",
            "#define Others Graphs\nLAYOUT(Others,",
            "the library does not declare the layout of Graphs",
        ),
    ],
)
def test_a_library_with_another_struct_layout_is_rejected(tmp_path, monkeypatch, old, new, why):
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path))
    source = copy_sources(tmp_path, (old, new))
    loaded = loader.load_library(source, (Graphs, AttentionTask))
    assert loaded.library is None and loaded.unavailable_reason.startswith(why)
    assert loader.load_library(source) == loaded, "it stays rejected"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("? graphs->sizes[g] : graphs->n; }", "? graphs->sizes[g] : graphs->n; }"),
        ("? graphs->sizes[g] : graphs->n; }", "? graphs->n : graphs->n; }"),
    ],
    ids=["as it is", "with a fault"],
)
def test_a_library_that_fails_its_self_test_is_rejected(tmp_path, monkeypatch, old, new):
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path))
    source = copy_sources(tmp_path, (old, new))
    monkeypatch.setattr(edge_attention.LIBRARY, "source", source)
    vars(edge_attention.LIBRARY).pop("loaded", None)
    try:
        before = torch.get_rng_state()
        used = edge_attention.LIBRARY.loaded
        assert torch.equal(before, torch.get_rng_state())
    finally:
        vars(edge_attention.LIBRARY).pop("loaded", None)
    agreed = list((tmp_path / "compiled").glob("*.agrees"))
    if old == new:
        assert used is not None and len(agreed) == 1
    else:
        assert used is None and not agreed
        why = loader.load_library(source).unavailable_reason
        assert "edge_attention.c disagrees with the reference: " in why and " is off by " in why


def test_the_self_test_runs_once_for_each_build(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path))
    source, calls = copy_sources(tmp_path).with_name("lookup.c"), []

    def self_test(library):
        calls.append(library)
        return ""

    def fails(_library):
        raise ArithmeticError("of two and two")

    def reload():
        loader._compiled.cache_clear()
        loader._open.cache_clear()
        loader._checked.clear()

    checked = dict(loader._checked)
    try:
        for _ in range(2):
            assert loader.load_library(source, (), self_test).library is not None
            assert loader.load_library(source, (), fails).library is not None, "the self-test does not run again"
            reload()  # as in another process
        assert len(calls) == 1 and isinstance(calls[0], ctypes.CDLL)
        assert loader.load_library(source, (), self_test, "1.2").library is calls[1], "of another version"
        assert loader.load_library(source, (), fails, "1.2").library is calls[1]
        reload()
        agreed = sorted((tmp_path / "compiled").glob("lookup-*.agrees"))
        assert len(agreed) == 2
        for path in agreed:
            path.write_text("of something else")
        failed = loader.load_library(source, (), fails)
        assert failed.library is None
        assert failed.unavailable_reason == "lookup.c disagrees with the reference: ArithmeticError: of two and two"
        reload()
        assert loader.load_library(source, (), self_test).library is not None and len(calls) == 3
    finally:
        reload()
        loader._checked.update(checked)


def damage(path, how):
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "zeros":
        path.write_bytes(data[:4096] + bytes(4096) + data[8192:])
    elif how == "junk":
        path.write_bytes(os.urandom(len(data)))
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "writable":
        path.chmod(0o722)
    elif how == "link":
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
    elif how == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "no sum":
        path.with_name(f"{path.name}.sha256").unlink()
    elif how == "another sum":
        path.with_name(f"{path.name}.sha256").write_text("0" * 64)
    elif how == "given away":
        os.chown(path, 12345, 12345)


DAMAGES = ["cut", "zeros", "junk", "empty", "writable", "link", "pipe", "no sum", "another sum"]
DAMAGES += ["given away"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_library_is_rebuilt_once(tmp_path, monkeypatch, how):
    first = compiler.build(SMALL, tmp_path / "compiled", ["cc"])
    built = []
    true = compiler._build
    monkeypatch.setattr(compiler, "_build", lambda *a: (built.append(1), true(*a))[1])
    damage(first, how)
    assert not is_intact(first)
    assert compiler.build(SMALL, tmp_path / "compiled", ["cc"]) == first
    assert compiler.build(SMALL, tmp_path / "compiled", ["cc"]) == first
    assert len(built) == 1 and is_intact(first) and first.stat().st_mode & 0o777 == 0o700
    ctypes.CDLL(str(first)).molattn_look_up  # noqa: B018


def test_installed_files_are_private_whatever_their_mode(tmp_path):
    new = tmp_path / "new"
    new.write_bytes(b"x")
    new.chmod(0o777)
    install_file(new, tmp_path / "lib.so")
    assert is_intact(tmp_path / "lib.so") and not new.exists()


@pytest.mark.slow
def test_four_threads_build_a_library_once(tmp_path, monkeypatch):
    built = []
    true = compiler._build
    monkeypatch.setattr(compiler, "_build", lambda *a: (built.append(1), true(*a))[1])
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: compiler.build(SOURCE, tmp_path / "compiled", ["cc"]), range(4)))
    assert len(built) == len(paths) == 1
    assert sorted(path.suffix for path in (tmp_path / "compiled").iterdir()) == [".lock", ".sha256", ".so"]


def test_a_build_is_logged_once(tmp_path, caplog):
    quick = compiler_script(tmp_path / "cc", 'while [ "$1" != -o ]; do shift; done\ntouch "$2"')
    with caplog.at_level("INFO", logger="molattn"):
        paths = [compiler.build(SOURCE, tmp_path / "compiled", [quick]) for _ in range(2)]
    assert paths[0] == paths[1]
    assert caplog.messages == ["building edge_attention.c for this processor, once: it takes a few seconds"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of processors are those of x86")
def test_each_processor_has_its_own_libraries(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLATTN_MARCH", "x86-64")
    plain = compiler.build(SMALL, tmp_path / "compiled", ["cc"])
    monkeypatch.delenv("MOLATTN_MARCH")
    assert compiler.build(SMALL, tmp_path / "compiled", ["cc"]) != plain
    with monkeypatch.context() as patch:  # on the first processors of 64 bits
        for module in (compiler, processor):
            patch.setattr(module, "cpu_description", lambda: "Linux x86_64 flags : fpu sse sse2")
        for march, missing in (("x86-64-v2", "popcnt"), ("x86-64-v4", "avx"), ("x86-64", "")):
            patch.setenv("MOLATTN_MARCH", march)
            if not missing:
                assert compiler.build(SMALL, tmp_path / "compiled", ["cc"]).exists()
                continue
            with pytest.raises(OSError, match=rf"does not have {missing}, which -march={march} requires$"):
                compiler.build(SMALL, tmp_path / "compiled", ["cc"])
    monkeypatch.setenv("MOLATTN_MARCH", "no-such-processor")
    with pytest.raises(OSError, match="cc fails: .*no-such-processor"):
        compiler.build(SMALL, tmp_path / "compiled", ["cc"])


def test_a_missing_home_folder_is_reported():
    code = f"import os; os.environ.pop('HOME', 0); os.environ.pop('XDG_CACHE_HOME', 0); {WHY}"
    known = "import pwd; pwd.getpwuid = lambda uid: (_ for _ in ()).throw(KeyError(uid));"
    assert "home" in output_of(known + code, MOLATTN_CACHE="").lower()


def test_an_invalid_cache_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    assert output_of(WHY, MOLATTN_CACHE=str(tmp_path / "file")).startswith("True [Errno 20] Not a directory")
