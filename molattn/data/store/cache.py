"""The molecules of a table, read at the first time and kept in the user's cache for the next ones."""

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from molattn import chem
from molattn.cache import CACHE_VARIABLE
from molattn.chem import Progress, rdkit_version
from molattn.chem.workers import WORKER_DIED, map_chunks
from molattn.data.datasets.folders import molecule_cache_dir
from molattn.data.store.molecule_store import MoleculeStore, pack_error, row_packer, store_dtypes
from molattn.data.store.packing import Packing
from molattn.data.store.ragged import DamagedFileError, FileDigest, RaggedColumns, RaggedWriter
from molattn.errors import ConformerError, SmilesError, UsageError
from molattn.trusted_files import check_parent_folders

SCHEMA = 1
HEADER = "header.json"

# Rows between two times that somebody is told how many are done.
_TOLD = 16


@dataclass(frozen=True)
class Featurization:
    """How SMILES become molecules.

    Attributes:
        make: from one SMILES to its molecule, or a SmilesError, with `on_molecule` as for `molecule_graph`; pickle can
            carry it to other processes.
        packing: how the molecules lie in a store.
        settings: all that `make` depends on, in plain values.
        stop: whether a molecule without a 3D geometry ends the reading.
        chunk: rows that go to a worker at once.
    """

    make: Callable[..., Any]
    packing: Packing
    settings: Mapping[str, Any]
    stop: bool = False
    chunk: int = 256


class CachedMolecules(NamedTuple):
    """Molecules, and where they come from."""

    molecules: MoleculeStore
    folder: Path | None
    """Where they were found; None where they were read now."""
    warning: str
    """Why they are not kept for the next time; empty where they are."""


def cached_molecules(
    smiles: Sequence[str], reading: Featurization, num_workers: int = 0, progress: Progress | None = None
) -> CachedMolecules:
    """What `reading` makes of `smiles`, row by row, or its error: taken from the cache if it is there.

    What is in the cache is found by its content: the SMILES, the settings, the versions and the code that reads
    molecules. It is read through and compared with its checksums, and read anew where it is damaged. Processes that ask
    at once wait for the first. Where the cache cannot be written to, or others can, a temporary folder takes its place.

    Args:
        smiles: n of them.
        reading: how they become molecules.
        num_workers: processes that share the work; 0 does it in this one.
        progress: told now and then how many are done, unless they are in the cache.

    Raises:
        ConformerError: with its `row`, for the first molecule without a geometry, where that stops the reading.
        UsageError: neither the cache nor a temporary folder can be written to.
    """
    identity = _identity(smiles, reading)
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    rows = _Rows(smiles, reading, num_workers, progress)
    not_kept = "the molecules are not kept for the next time"
    try:
        folder = molecule_cache_dir()
    except RuntimeError as error:  # a home that is nowhere
        return _in_temporary(identity, rows, f"{not_kept} ({error})")
    try:
        with suppress(DamagedFileError):
            return CachedMolecules(_opened(folder / key, identity, rows), folder / key, "")
        folder.mkdir(parents=True, exist_ok=True)
        check_parent_folders(folder / key)
        with FileLock(folder / f".{key}.lock"):
            with suppress(DamagedFileError):  # another process may have been faster
                return CachedMolecules(_opened(folder / key, identity, rows), folder / key, "")
            _remove_leftovers(folder, key)
            _replace(_written(folder / f".{key}.{secrets.token_hex(4)}.tmp", identity, rows), folder / key)
            return CachedMolecules(_opened(folder / key, identity, rows, just_written=True), None, "")
    except (OSError, NotImplementedError) as error:  # the second: a file system without locks
        why = getattr(error, "strerror", None) or error
        return _in_temporary(identity, rows, f"{not_kept} ({folder}: {why})")


def _in_temporary(identity: dict[str, Any], rows: "_Rows", why: str) -> CachedMolecules:
    advice = f"{CACHE_VARIABLE} names a folder for them"
    try:
        home = tempfile.TemporaryDirectory(prefix="molattn-")
        written = _written(Path(home.name) / "molecules", identity, rows)
    except OSError as error:
        raise UsageError(f"{why}, nor can they be written to {tempfile.gettempdir()}: {error}; {advice}") from error
    return CachedMolecules(_opened(written, identity, rows, home, just_written=True), None, f"{why}; {advice}")


@dataclass(frozen=True)
class _Rows:
    """What is to be read."""

    smiles: Sequence[str]
    reading: Featurization
    num_workers: int
    progress: Progress | None


def _identity(smiles: Sequence[str], reading: Featurization) -> dict[str, Any]:
    """All that the molecules depend on."""
    digest = hashlib.sha256()
    for start in range(0, len(smiles), 4096):
        # As JSON, in which no two lists look alike.
        digest.update(json.dumps(list(smiles[start : start + 4096])).encode())
    return {
        "schema": SCHEMA,
        "molattn": version("molattn"),
        "rdkit": rdkit_version(),
        "code": _code(),
        "settings": json.loads(json.dumps(reading.settings)),
        "columns": {name: dtype.str for name, dtype in store_dtypes(reading.packing).items()},
        "rows": len(smiles),
        "smiles": digest.hexdigest(),
    }


@cache
def _code() -> str:
    """A checksum of the code that reads molecules: one version of molattn may be worked on."""
    digest = hashlib.sha256()
    for folder in chem.__path__:
        for path in sorted([*Path(folder).glob("*.py"), *Path(folder).glob("*.c")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _opened(
    folder: Path, identity: Mapping[str, Any], rows: _Rows, home: object = None, just_written: bool = False
) -> MoleculeStore:
    """The store in a folder.

    Raises:
        DamagedFileError: there is none, it is not the one that was written, or it is not `final` and was not written
            just now.
    """
    try:
        if not just_written:
            check_parent_folders(folder / HEADER)  # checksums are no help against who writes them, too
        header = json.loads((folder / HEADER).read_bytes())
        if header["identity"] != identity or (header["final"] is not True and not just_written):
            raise DamagedFileError("it is another store, or not a whole one")
        files = {name: FileDigest(**file) for name, file in header["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(str(error)) from error
    packing = rows.reading.packing
    columns = RaggedColumns(folder, store_dtypes(packing), files)
    if columns.num_rows != len(rows.smiles):
        raise DamagedFileError("it has other rows")
    return MoleculeStore(columns, packing, folder=home)


def _written(folder: Path, identity: Mapping[str, Any], rows: _Rows) -> Path:
    """A new store, all of it on the disk; no folder is left where that fails."""
    folder.mkdir()
    reading, total, done, final = rows.reading, len(rows.smiles), 0, True
    size = max(1, min(reading.chunk, -(-total // max(1, rows.num_workers))))
    make, workers = row_packer(reading.make, reading.packing), min(rows.num_workers, -(-total // size))
    try:
        outcomes_of = map_chunks(rows.smiles, make, workers, size)
        with RaggedWriter(folder, store_dtypes(reading.packing)) as writer, closing(outcomes_of) as parts:
            for _, outcomes in parts:
                for outcome in outcomes:
                    if not isinstance(outcome, SmilesError):
                        writer.write(outcome)
                    elif reading.stop and isinstance(outcome, ConformerError):
                        outcome.row = done
                        raise outcome
                    else:
                        # Of a process that died nobody knows whether it will again.
                        final = final and outcome.reason != WORKER_DIED
                        writer.write(pack_error(outcome))
                    done += 1
                    if rows.progress is not None and (done % _TOLD == 0 or done == total):
                        rows.progress(done, total)
        files = {name: asdict(file) for name, file in writer.files.items()}
        with open(folder / HEADER, "x") as file:
            json.dump({"identity": identity, "final": final, "files": files}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _replace(new: Path, old: Path) -> None:
    """`new` in the place of `old`; whoever has `old` mapped keeps it."""
    if old.exists():
        discarded = old.with_name(f".{old.name}.{secrets.token_hex(4)}.tmp")
        os.replace(old, discarded)
        shutil.rmtree(discarded, ignore_errors=True)
    os.replace(new, old)


def _remove_leftovers(folder: Path, key: str) -> None:
    """Remove what processes left behind that were killed while they wrote; who writes holds the lock of its key.

    This process holds that of `key`.
    """
    for left in folder.glob(".*.tmp"):
        owner = left.name[1:].split(".")[0]
        if owner == key:
            shutil.rmtree(left, ignore_errors=True)
            continue
        with suppress(Timeout, OSError), FileLock(folder / f".{owner}.lock", timeout=0):
            shutil.rmtree(left, ignore_errors=True)
