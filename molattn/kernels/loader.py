"""Finds, checks and opens the libraries of molattn's C files: those of the wheel, or built here at first use.

A wheel for Linux has libraries for several microarchitecture levels: see `molattn.kernels.shipped`. The highest level
that this processor supports is tried first: it was measured to be as fast as a library that is built here
(benchmarks/shipped_libraries.py), and needs no compiler. Without one, and on a processor with matrix units (AMX), which
no level includes, `molattn.kernels.compiler` builds the file at its first use. Every caller has a reference
implementation in case there is no library.

A library is checked before it is used. Its structs must have the memory layout of the ctypes structures, which is
checked whenever it is loaded; and it must pass a self-test against the reference implementation on small examples. That
it passed is recorded in the cache. If a library fails a check, the next one is tried.

MOLATTN_COMPILE=0 disables building and loading; 1 prefers building to the libraries of the wheel, and "shipped" never
builds. `molattn doctor` reports what is in use.
"""

import ctypes
import os
import platform
import subprocess
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
    read_trusted,
    write_private,
)
from molattn.kernels.compiler import (
    MARCH_VARIABLE,
    SANITIZE_VARIABLE,
    build,
    find_compiler,
    short_digest,
    source_texts,
)
from molattn.kernels.processor import cpu_description, missing_instruction_set
from molattn.kernels.shipped import digest_of_sources, shipped_libraries

SOURCE_FOLDER = Path(__file__).with_name("csrc")
"""The folder of the C files."""

COMPILE_VARIABLE = "MOLATTN_COMPILE"
"""The environment variable that disables compiled kernels if it is "0" and the compiler if it is "shipped"; if it is
"1", a library that is built here is preferred to those of the wheel."""
COMPILE_DISABLED = f"{COMPILE_VARIABLE} is 0"
"""The reason why there is no library if the variable is "0"."""
COMPILED_HERE = "compiled for this processor"
"""`LoadResult.origin` of a library that was built for this processor."""
COMPILER_DISABLED = f"{COMPILE_VARIABLE} is shipped"
"""The reason why no library is built if the variable is "shipped"."""


class Candidate(NamedTuple):
    """A library that was opened and is not checked yet.

    Attributes:
        library: the opened library.
        origin: as in `LoadResult`.
        sha256: of its file, in hexadecimal.
        record: a path in the cache, whose suffix is replaced, for the record that it passed its self-test; None if the
            cache cannot be used.
    """

    library: ctypes.CDLL
    origin: str
    sha256: str
    record: Path | None


class LoadResult(NamedTuple):
    """The result of loading a library.

    Attributes:
        library: None if there is none.
        unavailable_reason: why there is none; empty if there is one.
        origin: where it comes from, such as "compiled for this processor" or "shipped for x86-64-v4"; empty if there is
            none.
        skipped_reason: why the libraries that were tried before it are not used; empty if it was the first.
    """

    library: ctypes.CDLL | None
    unavailable_reason: str = ""
    origin: str = ""
    skipped_reason: str = ""


def load_library(
    source: Path,
    structures: Sequence[type[ctypes.Structure]] = (),
    self_test: Callable[[ctypes.CDLL], str] | None = None,
    depends_on: str = "",
) -> LoadResult:
    """Load the library of a C file, and build it first if needed.

    Args:
        source: the C file.
        structures: ctypes structures, named as the structs that the C file declares with LAYOUT; a leading underscore
            is ignored.
        self_test: returns how the results of a library differ from the reference; empty if they agree. It is called
            once for each library and `depends_on`.
        depends_on: what the self-test depends on besides the library, such as a version or a hash.

    Returns:
        The library, or the reason why there is none; no error is raised.
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
) -> LoadResult:
    """The first library of a C file that can be opened and passes its checks."""
    reasons = []
    for candidate in _candidates(source):
        if isinstance(candidate, Candidate):
            why = _layout_mismatch(candidate.library, structures)
            why = why or _self_test_failure(candidate, source, self_test, depends_on)
            if not why:
                return LoadResult(candidate.library, "", candidate.origin, "; ".join(reasons))
            reasons.append(why)
        else:
            reasons.append(candidate)
    return LoadResult(None, "; ".join(reasons))


class Library:
    """The functions of a C file, with their types; the library is built and loaded at first use.

    Args:
        file: the name of the C file in `SOURCE_FOLDER`.
        functions: the argument types and the result type of each function, by name.
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
        """The library, with the argument and result types of its functions set; None for None."""
        for name, (argument_types, result_type) in self.functions.items() if library is not None else ():
            function = getattr(library, name)
            function.argtypes, function.restype = argument_types, result_type
        return library

    def unavailable_reason(self) -> str:
        """Why `loaded` is None; empty if it is a library."""
        return "" if self.loaded is not None else load_library(self.source).unavailable_reason

    def origin(self) -> str:
        """Where `loaded` comes from, as from `describe_origin`; empty if it is None."""
        if self.loaded is None:
            return ""
        return describe_origin(load_library(self.source))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of the library, which must be available."""
        return getattr(self.loaded, name)


def describe_origin(loaded: LoadResult) -> str:
    """Where a library comes from, and why the libraries that were tried before it are not used."""
    return f"{loaded.origin}, because {loaded.skipped_reason}" if loaded.skipped_reason else loaded.origin


_check_lock = RLock()
_checked: dict[tuple[Path, str], LoadResult] = {}
"""The result for each C file whose libraries were checked, by its path and what the self-test depends on."""


class _Field(ctypes.Structure):
    """`Field` of layout.h."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_int64), ("size", ctypes.c_int64))


def _layout_mismatch(library: ctypes.CDLL, structures: Sequence[type[ctypes.Structure]]) -> str:
    """The first difference between the structs of C and the ctypes structures; empty if there is none."""
    for structure in structures:
        name = structure.__name__.lstrip("_")
        try:
            fields = ctypes.pointer(_Field.in_dll(library, f"molattn_layout_{name}"))
        except ValueError:
            return f"the library does not declare the layout of {name}"
        last = next(i for i in count() if fields[i].name is None)
        in_c = {fields[i].name.decode(): (fields[i].offset, fields[i].size) for i in range(last)}
        in_python = {
            field: (getattr(structure, field).offset, getattr(structure, field).size)
            for field, *_ in structure._fields_
        }
        for field in (*in_python, *in_c):
            c, python = (_describe_field(fields_of.get(field)) for fields_of in (in_c, in_python))
            if c != python:
                return f"{name}.{field} is {c} in C and {python} in Python"
        if fields[last].size != ctypes.sizeof(structure):
            return f"{name} has {fields[last].size} bytes in C and {ctypes.sizeof(structure)} in Python"
    return ""


def _describe_field(offset_and_size: tuple[int, int] | None) -> str:
    if offset_and_size is None:
        return "missing"
    offset, size = offset_and_size
    return f"at byte {offset}, of {size} bytes"


def _self_test_failure(
    candidate: Candidate, source: Path, self_test: Callable[[ctypes.CDLL], str] | None, depends_on: str
) -> str:
    """How a library failed `self_test`; empty if it passed, now or before according to the record in the cache."""
    if self_test is None:
        return ""
    record = None
    if candidate.record is not None:
        suffix = f"-{short_digest(depends_on)}.agrees" if depends_on else ".agrees"
        record = candidate.record.with_name(f"{candidate.record.stem}{suffix}")
        if read_trusted(record) == candidate.sha256.encode():
            return ""
    try:
        failure = self_test(candidate.library)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    if failure:
        return f"{source.name} disagrees with the reference: {failure}"
    if record is not None:
        with suppress(OSError):  # if it cannot be recorded, the next process repeats the test
            write_private(record, candidate.sha256)
    return ""


def _candidates(source: Path) -> Iterator[Candidate | str]:
    """The libraries of a C file in order of preference; if one cannot be opened, the reason instead."""
    mode, march, sanitize = (
        os.environ.get(name, "").strip() for name in (COMPILE_VARIABLE, MARCH_VARIABLE, SANITIZE_VARIABLE)
    )
    if mode == "0":
        yield COMPILE_DISABLED
    elif os.name != "posix":
        yield f"not supported on {platform.system()}"
    elif sanitize == "1":
        yield _compiled(source)
    elif mode == "shipped":
        yield from _shipped(source)
        yield COMPILER_DISABLED
    elif mode == "1" or march or not missing_instruction_set(["amxbf16"]):
        yield _compiled(source)
        yield from _shipped(source)
    else:
        yield from _shipped(source)
        yield _compiled(source)


@cache
def _compiled(source: Path) -> Candidate | str:
    """The library that is built for this processor; if it cannot be built or opened, the reason instead."""
    try:
        path = build(source, cache_folder() / "compiled", find_compiler())
    # RuntimeError: no home folder, or a file system without locks.
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return str(error)
    march = os.environ.get(MARCH_VARIABLE, "").strip()
    digest = (read_trusted(checksum_path(path)) or b"").decode("ascii", "replace").strip()
    return _open(path, f"compiled for {march} ({MARCH_VARIABLE})" if march else COMPILED_HERE, digest, path)


def _shipped(source: Path) -> Iterator[Candidate | str]:
    """The libraries of the wheel for this processor, the best first; if one cannot be used, the reason instead."""
    sources, march = digest_of_sources(source_texts(source)), os.environ.get(MARCH_VARIABLE, "").strip()
    for found in shipped_libraries(source.stem, sources, march):
        yield found if isinstance(found, str) else _open(found.path, f"shipped for {found.target}", found.sha256)


@cache
def _open(path: Path, origin: str, sha256: str, record: Path | None = None) -> Candidate | str:
    """The opened library, not checked yet; if it cannot be opened, the reason instead."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"it cannot be opened ({error}): set {CACHE_VARIABLE} to a folder from which programs may run"
    return Candidate(library, origin, sha256, record or _record_of_shipped(path, sha256))


def _record_of_shipped(path: Path, sha256: str) -> Path | None:
    """`Candidate.record` of a library of the wheel on this processor: the folder of the wheel may be read-only."""
    try:
        folder = cache_folder() / "compiled"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_private_folder(folder)
    except (OSError, RuntimeError):
        return None
    return folder / f"{path.stem}-shipped-{short_digest(sha256 + cpu_description())}.so"
