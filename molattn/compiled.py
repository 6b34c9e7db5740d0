"""C files of molattn, each built by the machine's own C compiler at its first use, where there is one.

A shared library is kept in the user's cache under a name that says what it was made of: the source, the compiler and
the processor. Whoever uses one has another way for where there is none. `MOLATTN_COMPILE=0` says never to build or use
any.
"""

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from molattn.cache import cache_folder

_log = logging.getLogger(__name__)

VARIABLE = "MOLATTN_COMPILE"
"""The environment variable that forbids compiling where it is "0"."""

# No -ffast-math: linked into a library it would change how the whole process rounds small numbers.
FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC", "-shared")
NATIVE = ("-march=native", "-mprefer-vector-width=512")
"""For this processor; left out where the compiler does not know them."""
_SECONDS = 120


def library(source: Path) -> ctypes.CDLL | None:
    """The library of a C file, built and opened at the first call of a process; None where there is none: see
    `why_not`."""
    return _found(source)[0]


def why_not(source: Path) -> str:
    """Why `library` is None, in words; empty where it is not."""
    return _found(source)[1]


def build(source: Path, folder: Path, compiler: str) -> Path:
    """The library of `source` in `folder`, built if it is not there yet; several processes build it once.

    Raises OSError or subprocess.SubprocessError where it cannot be built.
    """
    made_of = "\n".join((*_texts(source), *FLAGS, *NATIVE, *_this_compiler(compiler), _processor()))
    path = folder / f"{source.stem}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.so"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        # What is loaded from there runs here.
        raise OSError(f"others may write to {folder}: take that right from them (chmod go-w)")
    if not path.exists():
        from filelock import FileLock  # here, because it takes longer to import than a library to find

        with FileLock(path.with_suffix(".lock"), timeout=2 * _SECONDS):
            if not path.exists():
                _build(source, path, compiler)
    return path


def _texts(source: Path) -> Iterator[str]:
    """The text of a C file and of what it includes of ours, in order."""
    text = source.read_text("utf-8")
    yield text
    for name in re.findall(r'^#include "(.+)"$', text, re.MULTILINE):
        yield from _texts(source.parent / name)


def _build(source: Path, path: Path, compiler: str) -> None:
    _log.info("building %s.c for this processor: once, some seconds", source.stem)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        for native in (NATIVE, NATIVE[:1], ()):
            command = [compiler, *FLAGS, *native, "-o", str(built), str(source), "-lpthread"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if not done.returncode:
                os.replace(built, path)
                return
    raise OSError(f"{compiler} fails: {(done.stderr.strip().splitlines() or ['it does not say why'])[0]}")


@cache
def _found(source: Path) -> tuple[ctypes.CDLL | None, str]:
    if os.environ.get(VARIABLE, "").strip() == "0":
        return None, f"{VARIABLE} is 0"
    if os.name != "posix":
        return None, f"not tried on {platform.system()}"
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "there is no C compiler: install gcc or clang"
    try:
        return ctypes.CDLL(str(build(source, cache_folder() / "compiled", compiler))), ""
    except (OSError, subprocess.SubprocessError, TimeoutError) as error:
        return None, str(error)


def _this_compiler(compiler: str) -> tuple[str, ...]:
    """Which it is, without starting it: that would take longer than all the rest."""
    path = os.path.realpath(shutil.which(compiler) or compiler)
    about = os.stat(path)
    return path, str(about.st_size), str(about.st_mtime_ns)


def _processor() -> str:
    """What a library is made for: one that moved to another processor is built anew."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return " ".join((platform.system(), platform.machine(), flags))
