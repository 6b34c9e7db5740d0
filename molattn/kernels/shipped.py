"""The libraries in a wheel: the C files, built for microarchitecture levels that many processors have.

A wheel for Linux has them in the folder `libraries`, next to the sources; `tools/release/libraries.py` builds them. A
clone, an sdist and the wheel for any system have none. The manifest `libraries.json` in that folder lists the
instruction sets that a level needs, and the SHA-256 of each library and of the sources that it was built from: a
library is not used for other sources, on a processor that lacks an instruction set, or if it is damaged.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from molattn.errors import warn_caller
from molattn.kernels.processor import missing_instruction_set

FOLDER = Path(__file__).with_name("libraries")
"""The folder of the libraries; it exists only if the installed wheel includes some."""
MANIFEST_NAME = "libraries.json"
"""The name of the manifest in that folder."""


class Target(NamedTuple):
    """A microarchitecture level to build for.

    Attributes:
        name: its name in the option -march of gcc and clang.
        options: of the compiler.
        needs: names of instruction sets, as in /proc/cpuinfo, in addition to those that the compiler's macros name.
    """

    name: str
    options: tuple[str, ...]
    needs: tuple[str, ...] = ()


TARGETS: Mapping[str, tuple[Target, ...]] = {
    "x86_64": (
        Target("x86-64-v4", ("-march=x86-64-v4", "-mprefer-vector-width=512")),
        Target("x86-64-v3", ("-march=x86-64-v3",)),
    ),
    # LSE atomics, CRC32 and rounding doubling multiplication (RDM) are mandatory in armv8.2-a and optional in armv8-a.
    "aarch64": (Target("armv8.2-a", ("-march=armv8.2-a",), ("asimd", "atomics", "crc32", "asimdrdm")),),
}
"""For each machine, as `platform.machine` names it, what a wheel for Linux is built for, the best first."""


class ShippedLibrary(NamedTuple):
    """A library of the wheel.

    Attributes:
        path: the shared library.
        target: the name of the microarchitecture level.
        sha256: of the file, in hexadecimal.
    """

    path: Path
    target: str
    sha256: str


def shipped_libraries(stem: str, sources: str, march: str = "") -> Iterator[ShippedLibrary | str]:
    """The libraries of a C file for this processor, the best first; if one cannot be used, the reason instead.

    The reasons of those for other processors come last. Yields nothing if the installation includes no libraries.

    Args:
        stem: the name of the C file without ".c".
        sources: the hash of it and what it includes, by `digest_of_sources`.
        march: only those for this microarchitecture level; "" for all.
    """
    unsupported = []
    for target in _read_manifest(FOLDER / MANIFEST_NAME):
        name, entry = target["name"], target["libraries"].get(stem)
        if entry is None or march not in ("", name):
            continue
        path = FOLDER / entry["file"]
        if missing := missing_instruction_set(target["needs"]):
            unsupported.append(f"this processor does not have {missing}, which the library for {name} needs")
        elif entry["sources"] != sources:
            yield f"the library for {name} was built from another {stem}.c"
        elif not _is_intact(path, entry["sha256"]):
            warn_caller(f"{path} is damaged: install molattn again")
            yield f"{path} is damaged"
        else:
            yield ShippedLibrary(path, name, entry["sha256"])
    yield from unsupported


def digest_of_sources(texts: Iterator[str]) -> str:
    """The SHA-256 of the texts of a C file and of what it includes: see `molattn.kernels.compiler.source_texts`."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


@cache
def _read_manifest(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The microarchitecture levels in `libraries.json`, the best first; none if there is no such file."""
    try:
        return tuple(json.loads(path.read_text("utf-8"))["targets"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        warn_caller(f"{path} cannot be read ({error}): install molattn again")
        return ()


def _is_intact(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False
