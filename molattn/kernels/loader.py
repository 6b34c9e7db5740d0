"""C files of molattn, each built by the machine's own C compiler at its first use, where there is one.

A shared library is kept in the user's cache under a name that says what it was made of: the source, the compiler, its
options and the processor. It is opened if it is as it was written (see `molattn.trusted_files`), and rebuilt if not.
That a compiler fails or hangs is remembered for a day. Whoever uses a library has another way for where there is none.

No library is believed because it compiles. Its structures must lie in memory as Python's do, at every start; and at the
first one it must agree with that other way on small examples, which is remembered beside it.

MOLATTN_COMPILE=0 says never to build or use any. MOLATTN_MARCH builds for another processor than this one, by its name
for the compiler's -march: with x86-64-v3 there is no AVX-512 and no AMX, as on most machines. MOLATTN_SANITIZE=1 builds
with the address and undefined behaviour sanitizers, for `.ci/sanitize`. `molattn doctor` says what came of it.
"""

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from threading import RLock

from molattn.cache import CACHE_VARIABLE, cache_folder
from molattn.trusted_files import (
    check_private_folder,
    checksum_path,
    install_file,
    is_intact,
    read_trusted,
    write_private,
)

_log = logging.getLogger(__name__)

SOURCE_FOLDER = Path(__file__).with_name("csrc")
"""Where the C files lie."""

COMPILE_VARIABLE = "MOLATTN_COMPILE"
"""The environment variable that forbids compiling where it is "0"."""
COMPILE_DISABLED = f"{COMPILE_VARIABLE} is 0"
"""Why there is no library then, as `unavailable_reason` says it."""
MARCH_VARIABLE = "MOLATTN_MARCH"
"""The environment variable with the processor to build for, in place of this one."""
SANITIZE_VARIABLE = "MOLATTN_SANITIZE"
"""The environment variable that builds with sanitizers where it is "1"; for tests, as each library is then slow."""

# No -ffast-math: linked into a library it would change how the whole process rounds small numbers.
FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC", "-shared")
NATIVE = ("-march=native", "-mprefer-vector-width=512")
"""For this processor; left out where the compiler does not know them."""
SANITIZED = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

_SECONDS = 90
"""For a file; the largest takes 3 of them on a machine that has nothing else to do."""
_ANSWER = 10
"""Seconds for the compiler to say what it builds for: one that hangs does so here."""
_REMEMBERED = 24 * 3600
_HEEDED = ("PATH", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "TMPDIR")
"""The environment variables by which a compiler finds what it needs."""
_SETS = re.compile(r"#define __(AMX\w*?|AVX\w*?|FMA4?|F16C|BMI2?|SSE4_[12]|SSSE3|POPCNT|MOVBE|VAES|GFNI)__ 1")
"""What a compiler calls the sets of instructions that it may use, for x86."""
_OF_KERNEL = {"bmi": "bmi1"}
"""The names of Linux for them, where they are not the same but for underscores."""


def load_library(
    source: Path,
    structures: Sequence[type[ctypes.Structure]] = (),
    disagreement: Callable[[], str] | None = None,
) -> ctypes.CDLL | None:
    """The library of a C file, built and opened at the first call of a process; None where there is none: see
    `unavailable_reason`.

    Args:
        structures: Python's, of those that the C file announces with LAYOUT under the same names.
        disagreement: says where the library, which is already used for that, differs from what it stands for; empty
            for nowhere. It is called once for each library that is built.
    """
    loaded, _ = _found(source)
    if loaded is None:
        return None
    with _checking:
        if source not in _refused and (structures or disagreement):
            _refused[source] = ""  # `disagreement` will ask for the library
            _refused[source] = _otherwise_laid_out(loaded, structures) or _disagrees(loaded, source, disagreement)
        return None if _refused.get(source) else loaded


def unavailable_reason(source: Path) -> str:
    """Why `load_library` is None, in words; empty where it is not."""
    return _found(source)[1] or _refused.get(source, "")


_checking = RLock()
_refused: dict[Path, str] = {}
"""Of the libraries that were looked at: why not, or nothing."""


class _Field(ctypes.Structure):
    """`Field` of layout.h."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_int64), ("size", ctypes.c_int64))


def _otherwise_laid_out(loaded: ctypes.CDLL, structures: Sequence[type[ctypes.Structure]]) -> str:
    """Where a structure of C and that of Python differ; empty for nowhere."""
    for of in structures:
        name = of.__name__.lstrip("_")
        try:
            fields = ctypes.pointer(_Field.in_dll(loaded, f"molattn_layout_{name}"))
        except ValueError:
            return f"the library does not say how {name} is laid out"
        last = next(i for i in count() if fields[i].name is None)
        in_c = {fields[i].name.decode(): (fields[i].offset, fields[i].size) for i in range(last)}
        here = {field: (getattr(of, field).offset, getattr(of, field).size) for field, *_ in of._fields_}
        for field in (*here, *in_c):
            if here.get(field) != in_c.get(field):
                return f"{name}.{field} is {_at(in_c.get(field))} in C and {_at(here.get(field))} here"
        if fields[last].size != ctypes.sizeof(of):
            return f"{name} has {fields[last].size} bytes in C and {ctypes.sizeof(of)} here"
    return ""


def _at(place: tuple[int, int] | None) -> str:
    return "nowhere" if place is None else f"at byte {place[0]}, of {place[1]}"


def _disagrees(loaded: ctypes.CDLL, source: Path, disagreement: Callable[[], str] | None) -> str:
    """What `disagreement` says, unless it is known to say nothing of this very file."""
    if disagreement is None:
        return ""
    path = Path(loaded._name)
    agreed, digest = path.with_suffix(".agrees"), read_trusted(checksum_path(path))
    if digest is not None and read_trusted(agreed) == digest:
        return ""
    try:
        said = disagreement()
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    if said:
        return f"{source.name} disagrees with the reference: {said}"
    if digest is not None:
        with suppress(OSError):  # else the next process compares again
            write_private(agreed, digest.decode())
    return ""


def build(source: Path, folder: Path, compiler: str) -> Path:
    """The library of `source` in `folder`, whole, built if it is not there yet; several processes build it once.

    Raises OSError or subprocess.SubprocessError where it cannot be built, or was in vain within the last day.
    """
    flags, natives = _options()
    made_by = "\n".join((*flags, *(flag for native in natives for flag in native), *_this_compiler(compiler)))
    made_of = "\n".join((*_texts(source), made_by, _processor()))
    path = folder / f"{source.stem}-{_digest(made_of)}.so"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private_folder(folder)
    if is_intact(path):
        return path
    # What fails in one environment, without a linker in its PATH say, may work in another. A compiler that hangs does
    # so for every file.
    within = "\n".join(os.environ.get(name, "") for name in _HEEDED)
    failed = folder / f"{source.stem}-{_digest(made_of + within)}.failed"
    hung = folder / f"compiler-{_digest(made_by + within)}.failed"
    _recall(failed, hung)
    from filelock import FileLock  # here, because it takes longer to import than a library to find

    with FileLock(path.with_suffix(".lock"), timeout=_SECONDS + 2 * _ANSWER):
        if not is_intact(path):
            _recall(failed, hung)
            try:
                _build(source, path, [compiler, *flags], natives)
            except subprocess.TimeoutExpired as error:
                raise _remember(hung, f"{compiler} does not end within {error.timeout:g} s") from None
            except OSError as error:
                if error.errno is not None:  # the system failed, a full disk say: the next process tries again
                    raise
                raise _remember(failed, str(error)) from None
    return path


def _options() -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """What the compiler is told, and for which processor: one after another until it knows one of these."""
    flags, march = FLAGS, os.environ.get(MARCH_VARIABLE, "").strip()
    if os.environ.get(SANITIZE_VARIABLE, "").strip() == "1":
        if "asan" not in os.environ.get("LD_PRELOAD", ""):  # it would end this process
            raise OSError(f"{SANITIZE_VARIABLE} is 1, but LD_PRELOAD does not name libasan.so")
        flags = (*FLAGS, *SANITIZED)
    if not march:
        return flags, (NATIVE, NATIVE[:1], ())
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", march):
        raise OSError(f"{MARCH_VARIABLE} is {march[:64]!r}, which is no name of a processor: x86-64-v3 is one")
    return flags, ((f"-march={march}",),)


def _texts(source: Path) -> Iterator[str]:
    """The text of a C file and of what it includes of ours, in order."""
    text = source.read_text("utf-8")
    yield text
    for name in re.findall(r'^#include "(.+)"$', text, re.MULTILINE):
        yield from _texts(source.parent / name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(source: Path, path: Path, command: Sequence[str], natives: Sequence[Sequence[str]]) -> None:
    _log.info("building %s.c for this processor: once, some seconds", source.stem)
    built, said = path.with_suffix(".new"), ""
    try:
        for native in natives:
            code, said = _run([*command, *native, "-dM", "-E", "-x", "c", os.devnull], _ANSWER)
            if not code:
                _check_processor(said, native)
                code, said = _run([*command, *native, "-o", str(built), str(source), "-lpthread"], _SECONDS)
            if not code:
                install_file(built, path)
                return
    finally:
        built.unlink(missing_ok=True)
    raise OSError(f"{command[0]} fails: {(said.strip().splitlines() or ['it does not say why'])[0][:300]}")


def _run(command: Sequence[str], seconds: float) -> tuple[int, str]:
    """The exit status of a command, and what it said; with all that it started it ends after so many seconds.

    Raises OSError or subprocess.TimeoutExpired.
    """
    started = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with started:
        try:
            said, _ = started.communicate(timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            raise
    return started.returncode, said


def _check_processor(macros: str, native: Sequence[str]) -> None:
    """An OSError where instructions would be used that this processor does not have: the first of them would end the
    process. Nothing is asked of `NATIVE`, where the compiler has asked the processor itself."""
    there = {flag.replace("_", "") for flag in _processor().split()}
    if native[:1] == NATIVE[:1] or "sse2" not in there:  # or where Linux does not name them
        return
    wanted = [name.lower().replace("_", "") for name in _SETS.findall(macros)]
    missing = sorted(name for name in wanted if _OF_KERNEL.get(name, name) not in there)
    if missing:
        raise OSError(f"this processor does not have {missing[0]}, which {' '.join(native)} asks for")


def _remember(at: Path, why: str) -> OSError:
    """What to raise, once it is written down that building was in vain: not every process has to wait for that."""
    with suppress(OSError):
        write_private(at, why)
    return OSError(why)


def _recall(*places: Path) -> None:
    """An OSError where `_remember` has written something down within the last day."""
    for at in places:
        with suppress(FileNotFoundError):
            since = at.stat().st_mtime
            said = read_trusted(at) if 0 <= time.time() - since < _REMEMBERED else None
            if said is not None:
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(since))
                raise OSError(f"{said[:400].decode('utf-8', 'replace')} (on {when}; remove {at} to try again)")


@cache
def _found(source: Path) -> tuple[ctypes.CDLL | None, str]:
    if os.environ.get(COMPILE_VARIABLE, "").strip() == "0":
        return None, COMPILE_DISABLED
    if os.name != "posix":
        return None, f"not tried on {platform.system()}"
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "there is no C compiler: install gcc or clang"
    try:
        path = build(source, cache_folder() / "compiled", compiler)
    # A RuntimeError: no home folder, or a file system without locks.
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return None, str(error)
    try:
        return ctypes.CDLL(str(path)), ""
    except OSError as error:
        return None, f"it cannot be opened ({error}): let {CACHE_VARIABLE} name a folder from where programs may run"


def _this_compiler(compiler: str) -> tuple[str, ...]:
    """Which it is, without starting it: that would take longer than all the rest."""
    path = os.path.realpath(shutil.which(compiler) or compiler)
    about = os.stat(path)
    return path, str(about.st_size), str(about.st_mtime_ns)


@cache
def _processor() -> str:
    """What a library is made for: one that moved to another processor is built anew."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return " ".join((platform.system(), platform.machine(), flags))
