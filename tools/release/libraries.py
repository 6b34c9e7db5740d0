"""Builds the C files of molattn for the microarchitecture levels of many processors, as a wheel has them.

    python tools/release/libraries.py FOLDER

They are plain shared libraries: they are opened with ctypes and need nothing of Python, so that one wheel serves all
its versions. `build_hook.py` puts them into a wheel, `molattn/kernels/shipped.py` lists what is built for and reads
what is written here.
"""

import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
OLDEST_GLIBC = (2, 17)
"""Of the platform tags of wheels for these machines."""


def build_libraries(folder: Path, compiler: Sequence[str]) -> list[Path]:
    """Build every C file for every level of this machine's processors, and write the manifest that molattn reads.

    Args:
        folder: for the libraries and `libraries.json`.
        compiler: the command of the compiler.

    Returns:
        The libraries.

    Raises:
        OSError: a wheel with libraries is made on Linux with glibc alone, or there is no level for this machine.
        subprocess.CalledProcessError: the compiler fails.
    """
    sys.path.insert(0, str(ROOT))  # hatchling builds in an environment without molattn
    try:
        from molattn.kernels.compiler import FLAGS, source_texts
        from molattn.kernels.loader import SOURCE_FOLDER
        from molattn.kernels.processor import instruction_sets
        from molattn.kernels.shipped import MANIFEST_NAME, TARGETS, digest_of_sources
    finally:
        sys.path.remove(str(ROOT))
    machine = platform.machine()
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc" or machine not in TARGETS:
        raise OSError(f"no libraries for {platform.system()} {machine} without glibc: build a wheel without them")
    libraries, targets = [], []
    for target in TARGETS[machine]:
        macros = _output([*compiler, *target.options, "-dM", "-E", "-x", "c", os.devnull])
        about = {}
        for source in sorted(SOURCE_FOLDER.glob("*.c")):
            path = folder / f"{source.stem}-{target.name}.so"  # no name of a Python module
            # Nothing of the folder of this clone, and no symbols for a debugger: the same bytes wherever it is built.
            reproducible = ("-s", f"-ffile-prefix-map={SOURCE_FOLDER}=csrc", "-Wl,--build-id=none", "-Wl,--as-needed")
            _output([*compiler, *FLAGS, *target.options, *reproducible, "-o", str(path), str(source), "-lpthread"])
            about[source.stem] = {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "sources": digest_of_sources(source_texts(source)),
            }
            libraries.append(path)
        needs = sorted({*instruction_sets(macros), *target.needs})
        targets.append({"name": target.name, "needs": needs, "libraries": about})
    compiled_by = _output([*compiler, "--version"]).splitlines()[0]
    text = json.dumps({"compiler": compiled_by, "targets": targets}, indent=1) + "\n"
    (folder / MANIFEST_NAME).write_text(text, encoding="utf-8")
    return libraries


def platform_tag(libraries: Sequence[Path]) -> str:
    """The platform tag of a wheel with these libraries: that of the newest version of glibc that a symbol needs."""
    found = {OLDEST_GLIBC}
    for path in libraries:
        versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", path.read_bytes())
        found |= {(int(major), int(minor)) for major, minor in versions}
    major, minor = max(found)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def _output(command: Sequence[str]) -> str:
    """The output of a command; what it says of an error goes to the terminal."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Build into a new folder, and print the platform tag of a wheel with the libraries."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    print(platform_tag(build_libraries(folder, shlex.split(os.environ.get("CC", "").strip() or "gcc"))))


if __name__ == "__main__":
    main()
