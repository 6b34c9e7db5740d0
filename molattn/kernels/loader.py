"""Loads the libraries of molattn's C files: those that the wheel brings, or built for this processor at first use.

A wheel for Linux brings libraries for levels of processors: see `molattn.kernels.shipped`. The best for this processor
comes first: measured, it is as fast as one that is built here (benchmarks/shipped_libraries.py), and there at once.
Without one, and on a processor with matrix units (AMX), which no level has, the C compiler of the machine builds the
file at its first use. The result is stored in the user's cache under a name with a hash of the source, the compiler,
its options and the processor. It is loaded if it is unchanged since it was written (see `molattn.cache`), and rebuilt
if not. A compiler that fails or hangs is not tried again for a day. Every caller has a reference implementation in case
there is no library.

A library is not trusted yet when it is there. Its structs must have the memory layout of the ctypes structures, which
is checked whenever it is loaded; and it must pass a self-test against the reference implementation on small examples.
That it passed is recorded in the cache. In place of a library that fails, the next one is tried.

MOLATTN_COMPILE=0 disables building and loading; 1 builds before it looks what the wheel brings, and "shipped" never
builds. CC is the command of the compiler; cc, gcc or clang by default. MOLATTN_MARCH builds for another processor,
named as in the compiler's option -march, such as x86-64-v3, which has neither AVX-512 nor AMX. MOLATTN_SANITIZE=1
builds with the address and undefined behaviour sanitizers, for `.ci/sanitize`. `molattn doctor` reports what is in use.
"""

import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from molattn.cache import (
    CACHE_VARIABLE,
    cache_folder,
    check_private_folder,
    checksum_path,
    install_file,
    is_intact,
    read_trusted,
    write_private,
)
from molattn.errors import short_repr
from molattn.kernels.processor import cpu_description, instruction_sets, missing_instruction_set
from molattn.kernels.shipped import digest_of_sources, shipped_libraries

_log = logging.getLogger(__name__)

SOURCE_FOLDER = Path(__file__).with_name("csrc")
"""The folder of the C files."""

COMPILE_VARIABLE = "MOLATTN_COMPILE"
"""The environment variable that disables compiled kernels if it is "0", and the compiler if it is "shipped"; if it is
"1", building comes first."""
COMPILE_DISABLED = f"{COMPILE_VARIABLE} is 0"
"""What `unavailable_reason` returns if it is "0"."""
COMPILED_HERE = "compiled for this processor"
"""`Loaded.origin` of a library that was built for this processor."""
ONLY_SHIPPED = f"{COMPILE_VARIABLE} is shipped"
"""Why nothing is built if it is "shipped"."""
COMPILER_VARIABLE = "CC"
"""The environment variable with the command of the C compiler, such as "gcc" or "ccache gcc -m64"."""
MARCH_VARIABLE = "MOLATTN_MARCH"
"""The environment variable with the processor to build for instead of this one."""
SANITIZE_VARIABLE = "MOLATTN_SANITIZE"
"""The environment variable that builds with sanitizers if it is "1"; for tests, because the libraries are then slow."""

# No -ffast-math: linked into a library it would flush subnormal numbers to zero in the whole process.
FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC", "-shared")
NATIVE = ("-march=native", "-mprefer-vector-width=512")
"""Options for this processor; left out if the compiler does not support them."""
SANITIZED = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

_BUILD_SECONDS = 90
"""Time limit for compiling a file; the largest takes 3 seconds on an idle machine."""
_PROBE_SECONDS = 10
"""Time limit for the compiler to print its predefined macros; a compiler that hangs does so here."""
_FAILURE_SECONDS = 24 * 3600
_COMPILER_ENVIRONMENT = (
    "PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "TMPDIR",
)
"""The environment variables that a compiler reads to find its tools and headers."""


class Candidate(NamedTuple):
    """A library that was opened and is not checked yet.

    Attributes:
        library: the opened library.
        origin: where it comes from, in words.
        sha256: of its file, in hexadecimal.
        record: a path in the cache, with any suffix, for what is known of it; None if the cache cannot be used.
    """

    library: ctypes.CDLL
    origin: str
    sha256: str
    record: Path | None


class Loaded(NamedTuple):
    """What came of loading a library.

    Attributes:
        library: None if there is none.
        unavailable_reason: why there is none; empty if there is one.
        origin: "compiled for this processor" or "shipped for x86-64-v4"; empty if there is none.
        passed_over: why those that would have come first are not used; empty if there are none.
    """

    library: ctypes.CDLL | None
    unavailable_reason: str = ""
    origin: str = ""
    passed_over: str = ""


def load_library(
    source: Path,
    structures: Sequence[type[ctypes.Structure]] = (),
    self_test: Callable[[ctypes.CDLL], str] | None = None,
    depends_on: str = "",
) -> Loaded:
    """Load the library of a C file, and build it first if needed.

    Args:
        source: the C file.
        structures: ctypes structures, named as the structs that the C file declares with LAYOUT; a leading underscore
            is ignored.
        self_test: returns how the results of a library differ from the reference; empty if they agree. It is called
            once for each library and `depends_on`.
        depends_on: what the self-test depends on besides the library, such as a version or a hash.
    """
    key = (source, depends_on)
    with _check_lock:
        loaded = _checked.get(key) or _first_that_passes(source, structures, self_test, depends_on)
        if structures or self_test:
            _checked[key] = loaded
        return loaded


def _first_that_passes(
    source: Path,
    structures: Sequence[type[ctypes.Structure]],
    self_test: Callable[[ctypes.CDLL], str] | None,
    depends_on: str,
) -> Loaded:
    reasons = []
    for candidate in _candidates(source):
        if isinstance(candidate, Candidate):
            why = _layout_mismatch(candidate.library, structures)
            why = why or _self_test_failure(candidate, source, self_test, depends_on)
            if not why:
                return Loaded(candidate.library, "", candidate.origin, "; ".join(reasons))
            reasons.append(why)
        else:
            reasons.append(candidate)
    return Loaded(None, "; ".join(reasons))


class Library:
    """The functions of a C file, with their types; the library is built and loaded at first use.

    Args:
        file: the name of the C file in `SOURCE_FOLDER`.
        functions: by name, the argument types and the result type of a function.
        structures, self_test: those of `load_library`.
    """

    def __init__(
        self,
        file: str,
        functions: Mapping[str, tuple[Sequence[Any], Any]],
        structures: Sequence[type[ctypes.Structure]],
        self_test: Callable[[], str],
    ):
        self.source = SOURCE_FOLDER / file
        self.functions, self.structures, self.self_test = functions, structures, self_test

    @cached_property
    def loaded(self) -> ctypes.CDLL | None:
        """The library, loaded once per process; None if it is unavailable."""
        return self._set_types(load_library(self.source, self.structures, self._check).library)

    def _check(self, library: ctypes.CDLL) -> str:
        """The result of the self-test, during which this library is the one in use."""
        vars(self)["loaded"] = self._set_types(library)
        try:
            return self.self_test()
        finally:
            del vars(self)["loaded"]

    def _set_types(self, library: ctypes.CDLL | None) -> ctypes.CDLL | None:
        for name, (argument_types, result_type) in self.functions.items() if library is not None else ():
            function = getattr(library, name)
            function.argtypes, function.restype = argument_types, result_type
        return library

    def unavailable_reason(self) -> str:
        """Why `loaded` is None; empty if it is a library."""
        return "" if self.loaded is not None else load_library(self.source).unavailable_reason

    def origin(self) -> str:
        """Where `loaded` comes from, as in `Loaded.origin`, and why not from elsewhere; empty if it is None."""
        if self.loaded is None:
            return ""
        return describe_origin(load_library(self.source))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of the library, which must be available."""
        return getattr(self.loaded, name)


def describe_origin(loaded: Loaded) -> str:
    """Where a library comes from, and why those that would have come first are not used."""
    return f"{loaded.origin}, because {loaded.passed_over}" if loaded.passed_over else loaded.origin


_check_lock = RLock()
_checked: dict[tuple[Path, str], Loaded] = {}
"""What came of each library that was checked, and what its self-test depends on."""


class _Field(ctypes.Structure):
    """`Field` of layout.h."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_int64), ("size", ctypes.c_int64))


def _layout_mismatch(loaded: ctypes.CDLL, structures: Sequence[type[ctypes.Structure]]) -> str:
    """The first difference between the structs of C and the ctypes structures; empty if there is none."""
    for structure in structures:
        name = structure.__name__.lstrip("_")
        try:
            fields = ctypes.pointer(_Field.in_dll(loaded, f"molattn_layout_{name}"))
        except ValueError:
            return f"the library does not declare the layout of {name}"
        last = next(i for i in count() if fields[i].name is None)
        in_c = {fields[i].name.decode(): (fields[i].offset, fields[i].size) for i in range(last)}
        here = {
            field: (getattr(structure, field).offset, getattr(structure, field).size)
            for field, *_ in structure._fields_
        }
        for field in (*here, *in_c):
            in_python, c = _describe_field(here.get(field)), _describe_field(in_c.get(field))
            if in_python != c:
                return f"{name}.{field} is {c} in C and {in_python} here"
        if fields[last].size != ctypes.sizeof(structure):
            return f"{name} has {fields[last].size} bytes in C and {ctypes.sizeof(structure)} here"
    return ""


def _describe_field(field: tuple[int, int] | None) -> str:
    return "missing" if field is None else f"at byte {field[0]}, of {field[1]}"


def _self_test_failure(
    candidate: Candidate, source: Path, self_test: Callable[[ctypes.CDLL], str] | None, depends_on: str
) -> str:
    """The result of `self_test`, which is skipped if this file has passed it before."""
    if self_test is None:
        return ""
    passed, content = None, candidate.sha256.encode()
    if candidate.record is not None:
        suffix = f"-{_digest(depends_on)}.agrees" if depends_on else ".agrees"
        passed = candidate.record.with_name(f"{candidate.record.stem}{suffix}")
        if read_trusted(passed) == content:
            return ""
    try:
        failure = self_test(candidate.library)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    if failure:
        return f"{source.name} disagrees with the reference: {failure}"
    if passed is not None:
        with suppress(OSError):  # if it cannot be recorded, the next process repeats the test
            write_private(passed, candidate.sha256)
    return ""


def build(source: Path, folder: Path, compiler: Sequence[str]) -> Path:
    """The path of the library of `source` in `folder`, built if it is missing or damaged; only one process builds it.

    Args:
        source: the C file.
        folder: for the library and what is known of it.
        compiler: the command of the compiler, with options that are always given.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be built, or building failed within the last day.
    """
    flags, natives = _options()
    compiled_by = "\n".join((*flags, *(flag for native in natives for flag in native), *_compiler_identity(compiler)))
    inputs = "\n".join((*source_texts(source), compiled_by, cpu_description()))
    path = folder / f"{source.stem}-{_digest(inputs)}.so"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private_folder(folder)
    if is_intact(path):
        return path
    # A build that fails in one environment, such as without a linker in PATH, may work in another, so failures are
    # recorded per environment. A compiler that hangs does so for every file, so a timeout is recorded for all files.
    environment = "\n".join(os.environ.get(name, "") for name in _COMPILER_ENVIRONMENT)
    failed = folder / f"{source.stem}-{_digest(inputs + environment)}.failed"
    hung = folder / f"compiler-{_digest(compiled_by + environment)}.failed"
    _raise_recorded_failure(failed, hung)
    from filelock import FileLock  # here, because the import takes longer than loading a library

    with FileLock(path.with_suffix(".lock"), timeout=_BUILD_SECONDS + 2 * _PROBE_SECONDS):
        if not is_intact(path):
            _raise_recorded_failure(failed, hung)
            try:
                _build(source, path, [*compiler, *flags], natives)
            except subprocess.TimeoutExpired as error:
                raise _record_failure(hung, f"{compiler[0]} does not end within {error.timeout:g} s") from None
            except OSError as error:
                # A failure of the system, such as a full disk, is not recorded: the next process tries again.
                if error.errno is not None:
                    raise
                raise _record_failure(failed, str(error)) from None
    return path


def _options() -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The options of the compiler, and alternatives for the processor; the first one that works is used."""
    flags, march = FLAGS, os.environ.get(MARCH_VARIABLE, "").strip()
    if os.environ.get(SANITIZE_VARIABLE, "").strip() == "1":
        if "asan" not in os.environ.get("LD_PRELOAD", ""):  # without it, loading the library ends this process
            raise OSError(f"{SANITIZE_VARIABLE} is 1, but LD_PRELOAD does not name libasan.so")
        flags = (*FLAGS, *SANITIZED)
    if not march:
        return flags, (NATIVE, NATIVE[:1], ())
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", march):
        raise OSError(f"{MARCH_VARIABLE} is {march[:64]!r}, which is not the name of a processor: x86-64-v3 is one")
    return flags, ((f"-march={march}",),)


def source_texts(source: Path) -> Iterator[str]:
    """The text of a C file and of the files of csrc that it includes, in order."""
    text = source.read_text("utf-8")
    yield text
    for name in re.findall(r'^#include "(.+)"$', text, re.MULTILINE):
        yield from source_texts(source.parent / name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(source: Path, path: Path, command: Sequence[str], natives: Sequence[Sequence[str]]) -> None:
    _log.info("building %s.c for this processor: once, some seconds", source.stem)
    built, output = path.with_suffix(".new"), ""
    try:
        for native in natives:
            code, output = _run([*command, *native, "-dM", "-E", "-x", "c", os.devnull], _PROBE_SECONDS)
            if not code:
                _check_instruction_sets(output, native)
                code, output = _run([*command, *native, "-o", str(built), str(source), "-lpthread"], _BUILD_SECONDS)
            if not code:
                install_file(built, path)
                return
    finally:
        built.unlink(missing_ok=True)
    raise OSError(f"{command[0]} fails: {(output.strip().splitlines() or ['it gives no reason'])[0][:300]}")


def _run(command: Sequence[str], seconds: float) -> tuple[int, str]:
    """The exit status and output of a command; it and its child processes are killed after so many seconds.

    Raises:
        OSError, subprocess.TimeoutExpired: it cannot be started, or takes longer.
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
            output, _ = started.communicate(timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            raise
    return started.returncode, output


def _check_instruction_sets(macros: str, native: Sequence[str]) -> None:
    """Raise an OSError if the compiler would use instructions that this processor does not have.

    Such an instruction would end the process (SIGILL). `NATIVE` is not checked: the compiler detects the processor.
    """
    if native[:1] == NATIVE[:1] or missing_instruction_set(["sse2"]):  # or if the instruction sets are unknown
        return
    if missing := missing_instruction_set(instruction_sets(macros)):
        raise OSError(f"this processor does not have {missing}, which {' '.join(native)} requires")


def _record_failure(path: Path, reason: str) -> OSError:
    """Record that building failed, so that other processes do not wait for it again; returns the error to raise."""
    with suppress(OSError):
        write_private(path, reason)
    return OSError(reason)


def _raise_recorded_failure(*paths: Path) -> None:
    """Raise an OSError if `_record_failure` recorded a failure within the last day."""
    for path in paths:
        with suppress(FileNotFoundError):
            since = path.stat().st_mtime
            reason = read_trusted(path) if 0 <= time.time() - since < _FAILURE_SECONDS else None
            if reason is not None:
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(since))
                raise OSError(f"{reason[:400].decode('utf-8', 'replace')} (on {when}; remove {path} to try again)")


def _candidates(source: Path) -> Iterator[Candidate | str]:
    """The libraries of a C file, the best first; in place of one that cannot be opened, why."""
    chosen, march, sanitize = (
        os.environ.get(name, "").strip() for name in (COMPILE_VARIABLE, MARCH_VARIABLE, SANITIZE_VARIABLE)
    )
    if chosen == "0":
        yield COMPILE_DISABLED
    elif os.name != "posix":
        yield f"not supported on {platform.system()}"
    elif sanitize == "1":
        yield _compiled(source)
    elif chosen == "shipped":
        yield from _shipped(source)
        yield ONLY_SHIPPED
    elif chosen == "1" or march or not missing_instruction_set(["amxbf16"]):
        yield _compiled(source)
        yield from _shipped(source)
    else:
        yield from _shipped(source)
        yield _compiled(source)


@cache
def _compiled(source: Path) -> Candidate | str:
    """The library that is built for this processor; why, if it cannot be."""
    try:
        path = build(source, cache_folder() / "compiled", find_compiler())
    # RuntimeError: no home folder, or a file system without locks.
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return str(error)
    march = os.environ.get(MARCH_VARIABLE, "").strip()
    digest = (read_trusted(checksum_path(path)) or b"").decode("ascii", "replace").strip()
    return _open(path, f"compiled for {march} ({MARCH_VARIABLE})" if march else COMPILED_HERE, digest, path)


def _shipped(source: Path) -> Iterator[Candidate | str]:
    """The libraries of the wheel for this processor, the best first."""
    sources, march = digest_of_sources(source_texts(source)), os.environ.get(MARCH_VARIABLE, "").strip()
    for found in shipped_libraries(source.stem, sources, march):
        yield found if isinstance(found, str) else _open(found.path, f"shipped for {found.target}", found.sha256)


@cache
def _open(path: Path, origin: str, sha256: str, record: Path | None = None) -> Candidate | str:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"it cannot be opened ({error}): set {CACHE_VARIABLE} to a folder from which programs may run"
    return Candidate(library, origin, sha256, record or _record_of_shipped(path, sha256))


def _record_of_shipped(path: Path, sha256: str) -> Path | None:
    """A path in the cache for what is known of a library that lies elsewhere, on this processor."""
    try:
        folder = cache_folder() / "compiled"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_private_folder(folder)
    except (OSError, RuntimeError):
        return None
    return folder / f"{path.stem}-shipped-{_digest(sha256 + cpu_description())}.so"


def find_compiler() -> list[str]:
    """The command of the C compiler: that of the environment variable CC, which may have options, or cc, gcc or clang.

    Raises:
        OSError: there is none, or not that of CC.
    """
    wanted = os.environ.get(COMPILER_VARIABLE, "").strip()
    if not wanted:
        found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if found is None:
            raise OSError("there is no C compiler: install gcc or clang")
        return [found]
    try:
        program, *options = shlex.split(wanted)
    except ValueError as error:
        raise OSError(f"{COMPILER_VARIABLE} is {short_repr(wanted)}, which is not a command: {error}") from None
    found = shutil.which(program)
    if found is None:
        raise OSError(f"{COMPILER_VARIABLE} names {short_repr(program)}, which is not found: install it, or unset it")
    return [found, *options]


def _compiler_identity(compiler: Sequence[str]) -> tuple[str, ...]:
    """The path, size and modification time of the compiler; running it for its version would take much longer.

    A second program of its command, as in "ccache gcc", counts too.
    """
    identity = []
    for word in compiler:
        path = shutil.which(word)
        if path is None:
            identity.append(word)
        else:
            path = os.path.realpath(path)
            about = os.stat(path)
            identity += [path, str(about.st_size), str(about.st_mtime_ns)]
    return tuple(identity)
