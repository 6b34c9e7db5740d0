"""`molattn doctor`: check the installation."""

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Annotated

import typer

from molattn import __version__
from molattn.cli.terminal import print_json, print_line
from molattn.errors import installed_extras
from molattn.plugins import describe_plugins

# Name of the distribution -> module to import.
PACKAGES = {
    "torch": "torch",
    "rdkit": "rdkit.Chem",
    "torch-geometric": "torch_geometric",
    "pyarrow": "pyarrow.parquet",
}


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    """The state, or the problem and its solution."""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Check this installation: versions, processors, GPU, data sets, cache, and whether files can be written here.

    Exits with code 0 if all checks pass and 1 if one fails. Include its output in bug reports.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("Python", _python),
        ("molattn", lambda: __version__),
        *((name, lambda n=name, m=module: _package(n, m)) for name, module in PACKAGES.items()),
        ("processors", _processors),
        ("GPU", _gpu),
        ("compiled attention", _kernels),
        ("compiled reader", _reader),
        ("extras", _extras),
        ("plugins", describe_plugins),
        ("data sets", _datasets),
        ("cache", _cache),
        ("current folder", _current_folder),
    ]
    results = [_run_check(name, check) for name, check in checks]
    if as_json:
        print_json({"ok": all(result.ok for result in results), "checks": [asdict(result) for result in results]})
    else:
        width = max(len(result.name) for result in results)
        for result in results:
            print_line(f"{'ok  ' if result.ok else 'FAIL'}  {result.name.ljust(width)}  {result.found}")
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _run_check(name: str, check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(name, True, check())
    except Exception as error:
        return CheckResult(name, False, str(error) or type(error).__name__)


def _python() -> str:
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _package(name: str, module: str) -> str:
    try:
        __import__(module)
    except ImportError as error:
        raise RuntimeError(f"cannot be imported ({error}): pip install '{name}'") from error
    return version(name)


def _processors() -> str:
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{os.cpu_count()}, of which this process may use {usable}; torch uses {torch.get_num_threads()} threads"


def _gpu() -> str:
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        hip = getattr(torch.version, "hip", None)
        return f"{', '.join(names)}; {f'ROCm {hip}' if hip else f'CUDA {torch.version.cuda}'}"
    if torch.backends.mps.is_available():
        return "Apple GPU (MPS), which molattn does not use"
    return "none that torch can use; molattn runs on the CPU"


def _kernels() -> str:
    from molattn.kernels import describe_kernels

    return describe_kernels()


def _reader() -> str:
    from molattn.chem.binary import load, reader, unavailable_reason
    from molattn.kernels.loader import describe_origin

    if reader() is not None:
        return f"yes, {describe_origin(load())}"
    return f"no, molecules are read by RDKit's Python functions, which are slower: {unavailable_reason()}"


def _extras() -> str:
    return ", ".join(f"{extra} {'yes' if installed else 'no'}" for extra, installed in installed_extras().items())


def _datasets() -> str:
    from molattn.data.datasets.fetch import describe_datasets

    return describe_datasets()


def _cache() -> str:
    """The folder of files that can be downloaded or computed again, and its size."""
    from molattn.cache import CACHE_VARIABLE, cache_folder
    from molattn.data.datasets.folders import molecule_cache_dir

    try:
        home, molecules = cache_folder(), molecule_cache_dir()
    except RuntimeError as error:
        raise RuntimeError(f"{error}: set {CACHE_VARIABLE} to a folder") from error
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) if home.is_dir() else 0
    num_tables = len([path for path in molecules.glob("[!.]*") if path.is_dir()])
    tables = "1 table" if num_tables == 1 else f"{num_tables} tables"
    return f"{home}: {size / 1e6:,.1f} MB, including the molecules of {tables}; it may be deleted"


def _current_folder() -> str:
    folder = os.getcwd()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"molattn")
    except OSError as error:
        raise RuntimeError(f"{folder} cannot be written to ({error.strerror}): give --output elsewhere") from error
    return f"{folder} can be written to"
