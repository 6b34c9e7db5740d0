"""Line 41: damaged compiled libraries, and compilers that hang."""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from molattn.kernels import compiler, loader
from tests.reliability.score import Score

SOURCES = [*loader.SOURCE_FOLDER.glob("*.c")]
SMALL = next(source for source in SOURCES if source.name == "lookup.c")
OPEN = """
import ctypes, os, sys
from pathlib import Path
from molattn.kernels import loader
source = Path(sys.argv[1])
library, reason, *_ = loader.load_library(source)
if library is None:
    print("none", reason)
else:
    numbers = (ctypes.c_int64 * 1)
    rows, codes, y = (ctypes.c_float * 2)(3.0, 5.0), (ctypes.c_int32 * 1)(1), (ctypes.c_float * 1)()
    library.molattn_look_up.argtypes = (*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2)
    print("wrong" if library.molattn_look_up(rows, codes, y, 1, 1, 1, numbers(0), numbers(2)) else y[0])
"""

pytestmark = pytest.mark.skipif(
    loader.load_library(SMALL).library is None,
    reason=f"nothing is compiled: {loader.load_library(SMALL).unavailable_reason}",
)


def opened(cache: Path, **environment: str) -> tuple[int, str]:
    """The exit status and the output of a process that opens the library and calls it."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(SMALL)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "MOLATTN_CACHE": str(cache), **environment},
    )
    return done.returncode, done.stdout.strip() or done.stderr[-300:]


def damaged(path: Path, whole: bytes, rng: Random) -> str:
    """Damage a library or its checksum; returns how, in words."""
    how = rng.choice(["cut", "zeros", "flipped", "junk", "link", "writable", "gone", "longer", "sum", "pipe"])
    place = rng.randrange(len(whole))
    path.unlink()
    if how == "link":
        path.with_name("other").write_bytes(whole[:place])
        path.symlink_to("other")
    elif how == "pipe":
        os.mkfifo(path)
    elif how != "gone":
        flipped = bytes([whole[place] ^ 1 << rng.randrange(8)])
        page = place // 4096 * 4096
        zeros = whole[:page] + bytes(len(whole[page : page + 4096 * rng.randint(1, 4)]))
        path.write_bytes(
            {
                "cut": whole[:place],
                "zeros": zeros + whole[len(zeros) :],
                "flipped": whole[:place] + flipped + whole[place + 1 :],
                "junk": rng.randbytes(place),
                "longer": whole + rng.randbytes(64),
            }.get(how, whole)
        )
        path.chmod(0o722 if how == "writable" else 0o700)
        if how == "sum":
            path.with_name(f"{path.name}.sha256").write_bytes(rng.randbytes(rng.randrange(70)))
    return how


def test_41_damaged_libraries_are_rebuilt(score: Score, tmp_path: Path) -> None:
    path = compiler.build(SMALL, tmp_path / "compiled", ["cc"])
    whole, rng = path.read_bytes(), Random(41)
    for _ in range(score.times(8, 300)):
        how = damaged(path, whole, rng)
        score.count("damaged libraries")
        code, output = opened(tmp_path, CC="cc")
        score.check((code, output) == (0, "5.0"), f"{how}: {code}, {output}")
        score.check(not path.is_symlink() and path.read_bytes() == whole, f"{how}: it was not built anew")


def test_41_libraries_of_other_users_are_not_used(score: Score, tmp_path: Path) -> None:
    path = compiler.build(SMALL, tmp_path / "compiled", ["cc"])
    for folder, mode in ((path.parent, 0o777), (path.parent, 0o770), (tmp_path, 0o707)):
        score.count("folders of others")
        before = folder.stat().st_mode
        folder.chmod(mode)
        code, output = opened(tmp_path)
        score.check(code == 0 and output.startswith("none others may write to"), f"{folder} {mode:o}: {code}, {output}")
        folder.chmod(before)
    if os.geteuid() == 0:  # only root can give files away
        for there in (path, path.parent):
            score.count("files of others")
            os.chown(there, 12345, 12345)
            code, output = opened(tmp_path, CC="cc")
            built_anew = there is path and (code, output) == (0, "5.0") and path.stat().st_uid == 0
            score.check(built_anew or (there is not path and "belongs to another user" in output), f"{there}: {output}")
            os.chown(there, 0, 0)


@pytest.mark.slow
def test_41_compilers_that_hang_or_fail(score: Score, tmp_path: Path) -> None:
    scripts = {"hangs": "sleep 600; echo no", "fails": "echo no such thing; exit 1", "dies": "kill -9 $$"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        for again in (False, True):
            score.count("compilers")
            start = time.monotonic()
            code, output = opened(tmp_path / f"cache {name}", CC=str(tmp_path / name))
            seconds = time.monotonic() - start
            score.check(code == 0 and output.startswith("none"), f"{name}: {code}, {output}")
            score.check(("to try again" in output) == again, f"{name}: it was not remembered: {output}")
            score.slowest(f"seconds of a compiler that {name}, {'again' if again else 'first'}", seconds)


def test_41_storage_that_is_noexec_or_read_only(score: Score, tmp_path: Path) -> None:
    """Only as root; otherwise the test is skipped."""
    disk = tmp_path / "disk"
    disk.mkdir()
    for options, expected in (
        ("noexec", "MOLATTN_CACHE to a folder from which programs may run"),
        ("ro", "Read-only"),
    ):
        mount = ["mount", "-t", "tmpfs", "-o", f"size=8m,mode=700,{options}", "molattn-tests", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            score.count("storage that this process may not mount")
            continue
        try:
            score.count("storage")
            code, output = opened(disk)
            score.check(code == 0 and output.startswith("none") and expected in output, f"{options}: {code}, {output}")
        finally:
            subprocess.run(["umount", str(disk)], check=True, capture_output=True)
