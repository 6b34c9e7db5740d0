"""Builds the libraries of molattn's C files with the C compiler of this machine.

A library is stored in the user's cache under a name with a hash of the source, the compiler, its options and the
processor. It is used if it is unchanged since it was written (see `molattn.cache`), and rebuilt if not. A compiler that
fails or hangs is not tried again for a day.

CC is the command of the compiler; cc, gcc or clang by default. MOLATTN_MARCH builds for another processor, named as in
the compiler's option -march, such as x86-64-v3, which has neither AVX-512 nor AMX. MOLATTN_SANITIZE=1 builds with the
address and undefined behaviour sanitizers, for `.ci/sanitize`.
"""

import hashlib
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from molattn.cache import check_private_folder, install_file, is_intact, read_trusted, write_private
from molattn.errors import short_repr
from molattn.kernels.processor import cpu_description, instruction_sets, missing_instruction_set

_log = logging.getLogger(__name__)

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


def build(source: Path, folder: Path, compiler: Sequence[str]) -> Path:
    """The path of the library of `source` in `folder`, built if it is missing or damaged; only one process builds it.

    Args:
        source: the C file.
        folder: for the library, its checksum and records of failed builds.
        compiler: the command of the compiler, with options that are always given.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be built, or building failed within the last day.
    """
    flags, processor_options = _options()
    for_processor = (option for options in processor_options for option in options)
    compiled_by = "\n".join((*flags, *for_processor, *_compiler_identity(compiler)))
    inputs = "\n".join((*source_texts(source), compiled_by, cpu_description()))
    path = folder / f"{source.stem}-{short_digest(inputs)}.so"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private_folder(folder)
    if is_intact(path):
        return path
    # A build that fails in one environment, such as without a linker in PATH, may work in another, so failures are
    # recorded per environment. A compiler that hangs does so for every file, so a timeout is recorded for all files.
    environment = "\n".join(os.environ.get(name, "") for name in _COMPILER_ENVIRONMENT)
    failed = folder / f"{source.stem}-{short_digest(inputs + environment)}.failed"
    hung = folder / f"compiler-{short_digest(compiled_by + environment)}.failed"
    _raise_recorded_failure(failed, hung)
    from filelock import FileLock  # here, because the import takes longer than loading a library

    with FileLock(path.with_suffix(".lock"), timeout=_BUILD_SECONDS + 2 * _PROBE_SECONDS):
        if not is_intact(path):
            _raise_recorded_failure(failed, hung)
            try:
                _build(source, path, [*compiler, *flags], processor_options)
            except subprocess.TimeoutExpired as error:
                raise _record_failure(hung, f"{compiler[0]} does not end within {error.timeout:g} s") from None
            except OSError as error:
                # A failure of the system, such as a full disk, is not recorded: the next process tries again.
                if error.errno is not None:
                    raise
                raise _record_failure(failed, str(error)) from None
    return path


def _options() -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The options of the compiler, and alternatives for the processor, of which the first that work are used."""
    flags, march = FLAGS, os.environ.get(MARCH_VARIABLE, "").strip()
    if os.environ.get(SANITIZE_VARIABLE, "").strip() == "1":
        if "asan" not in os.environ.get("LD_PRELOAD", ""):  # without it, loading the library ends this process
            raise OSError(f"{SANITIZE_VARIABLE} is 1, but LD_PRELOAD does not contain libasan.so")
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


def short_digest(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(source: Path, path: Path, command: Sequence[str], processor_options: Sequence[Sequence[str]]) -> None:
    """Compile `source` to `path`, with the first of the alternative `processor_options` that work.

    Raises:
        OSError, subprocess.TimeoutExpired: none work, or the compiler takes too long.
    """
    _log.info("building %s.c for this processor, once: it takes a few seconds", source.stem)
    built, output = path.with_suffix(".new"), ""
    try:
        for options in processor_options:
            code, output = _run([*command, *options, "-dM", "-E", "-x", "c", os.devnull], _PROBE_SECONDS)
            if not code:
                _check_instruction_sets(output, options)
                code, output = _run([*command, *options, "-o", str(built), str(source), "-lpthread"], _BUILD_SECONDS)
            if not code:
                install_file(built, path)
                return
    finally:
        built.unlink(missing_ok=True)
    raise OSError(f"{command[0]} fails: {(output.strip().splitlines() or ['it gives no reason'])[0][:300]}")


def _run(command: Sequence[str], seconds: float) -> tuple[int, str]:
    """The exit status and output of a command; it and its child processes are killed after that many seconds.

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


def _check_instruction_sets(macros: str, options: Sequence[str]) -> None:
    """Raise an OSError if the compiler would use instructions that this processor does not have.

    Such an instruction would end the process (SIGILL). `NATIVE` is not checked: the compiler detects the processor.
    """
    if options[:1] == NATIVE[:1] or missing_instruction_set(["sse2"]):  # or if the instruction sets are unknown
        return
    if missing := missing_instruction_set(instruction_sets(macros)):
        raise OSError(f"this processor does not have {missing}, which {' '.join(options)} requires")


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
            status = os.stat(path)
            identity += [path, str(status.st_size), str(status.st_mtime_ns)]
    return tuple(identity)
