"""The cache of featurized molecules: the molecules of a table are featurized once, and stored for later runs."""

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from molattn import chem
from molattn.cache import CACHE_VARIABLE, check_parent_folders
from molattn.chem import Progress, binary, rdkit_version
from molattn.chem.workers import WorkerDied, map_chunks
from molattn.data.datasets.folders import molecule_cache_dir
from molattn.data.locks import wait_for_lock
from molattn.data.store.molecule_store import MoleculeStore, pack_error, pack_row, store_dtypes
from molattn.data.store.packing import Packing
from molattn.data.store.ragged import DamagedFileError, FileDigest, RaggedColumns, RaggedWriter
from molattn.errors import ConformerError, SmilesError, UsageError
from molattn.kernels.compiler import source_texts

SCHEMA = 1
"""The version of the file format."""
HEADER = "header.json"

_ROWS_PER_PROGRESS = 16


@dataclass(frozen=True)
class Featurization:
    """How SMILES are converted into molecules.

    Attributes:
        featurize: a function from one SMILES to its molecule, which raises SmilesError for an invalid one. It takes the
            argument `on_molecule` of `molecule_graph`, and can be pickled.
        packing: how the molecules are packed into columns.
        settings: everything that `featurize` depends on, as JSON.
        stop_on_conformer_error: whether the error of a molecule without a conformer is raised, instead of stored.
        chunk_size: number of molecules that are sent to a worker process at once.
    """

    featurize: Callable[..., Any]
    packing: Packing
    settings: Mapping[str, Any]
    stop_on_conformer_error: bool = False
    chunk_size: int = 256


class CachedMolecules(NamedTuple):
    """Featurized molecules, and their folder in the cache."""

    molecules: MoleculeStore
    folder: Path | None
    """The folder of the cache that they were loaded from; None if they were featurized now."""
    warning: str
    """Why they are not cached; empty if they are."""


def cached_molecules(
    smiles: Sequence[str], featurization: Featurization, num_workers: int = 0, progress: Progress | None = None
) -> CachedMolecules:
    """The molecule, or the error, of each SMILES: loaded from the cache, or else featurized and stored in it.

    The key of the cache is a hash of the SMILES, the settings, the versions of molattn and RDKit, and the code of
    `molattn.chem`. Files are verified by checksums, and written again if they are damaged. If several processes need
    the same molecules, one featurizes them and the others wait. If the cache cannot be written to, or other users can
    write to it, a temporary folder is used.

    Args:
        smiles: n SMILES.
        featurization: how they are converted into molecules.
        num_workers: number of worker processes; 0 for none.
        progress: called regularly with the numbers of finished and of all molecules, unless they are in the cache.

    Returns:
        The molecules, in the order of `smiles`.

    Raises:
        ConformerError: with its `row`, for the first molecule without a conformer, if `stop_on_conformer_error`.
        UsageError: neither the cache nor a temporary folder can be written to.
    """
    dependencies = _dependencies(smiles, featurization)
    key = hashlib.sha256(json.dumps(dependencies, sort_keys=True).encode()).hexdigest()[:32]
    request = _Request(smiles, featurization, num_workers, progress)
    not_cached = "the molecules are not cached"
    try:
        folder = molecule_cache_dir()
    except RuntimeError as error:  # the home folder is unknown
        return _in_temporary_folder(dependencies, request, f"{not_cached} ({error})")
    try:
        with suppress(DamagedFileError):
            return CachedMolecules(_open(folder / key, dependencies, request), folder / key, "")
        folder.mkdir(parents=True, exist_ok=True)
        check_parent_folders(folder / key)
        with wait_for_lock(folder / f".{key}.lock", "another process is featurizing these molecules: waiting for it"):
            with suppress(DamagedFileError):  # another process may have been faster
                return CachedMolecules(_open(folder / key, dependencies, request), folder / key, "")
            _remove_temporary_folders(folder, key)
            _replace(_write(folder / f".{key}.{secrets.token_hex(4)}.tmp", dependencies, request), folder / key)
            return CachedMolecules(_open(folder / key, dependencies, request, just_written=True), None, "")
    except (OSError, NotImplementedError) as error:  # the second: a file system without locks
        reason = getattr(error, "strerror", None) or error
        return _in_temporary_folder(dependencies, request, f"{not_cached} ({folder}: {reason})")


def _in_temporary_folder(dependencies: dict[str, Any], request: "_Request", reason: str) -> CachedMolecules:
    advice = f"set {CACHE_VARIABLE} to a folder that can be written to"
    try:
        # Windows does not remove the files while they are mapped.
        temporary = tempfile.TemporaryDirectory(prefix="molattn-", ignore_cleanup_errors=True)
        written = _write(Path(temporary.name) / "molecules", dependencies, request)
    except OSError as error:
        raise UsageError(f"{reason}, nor can they be written to {tempfile.gettempdir()}: {error}; {advice}") from error
    return CachedMolecules(
        _open(written, dependencies, request, temporary, just_written=True), None, f"{reason}; {advice}"
    )


@dataclass(frozen=True)
class _Request:
    """The arguments of `cached_molecules`."""

    smiles: Sequence[str]
    featurization: Featurization
    num_workers: int
    progress: Progress | None


def _dependencies(smiles: Sequence[str], featurization: Featurization) -> dict[str, Any]:
    """Everything that the featurized molecules depend on, as JSON."""
    digest = hashlib.sha256()
    for start in range(0, len(smiles), 4096):
        # As JSON, so that different lists have different digests.
        digest.update(json.dumps(list(smiles[start : start + 4096])).encode())
    return {
        "schema": SCHEMA,
        "molattn": version("molattn"),
        "rdkit": rdkit_version(),
        "code": _code_digest(),
        "settings": json.loads(json.dumps(featurization.settings)),
        "columns": {name: dtype.str for name, dtype in store_dtypes(featurization.packing).items()},
        "rows": len(smiles),
        "smiles": digest.hexdigest(),
    }


@cache
def _code_digest() -> str:
    """A checksum of the code that featurizes, which may change within a version of molattn during development."""
    return hashlib.sha256("".join(_code_texts()).encode()).hexdigest()


def _code_texts() -> list[str]:
    """The text of each module of `molattn.chem`, and of the C sources of its reader of RDKit's binary format."""
    modules = [path for folder in chem.__path__ for path in sorted(Path(folder).glob("*.py"))]
    return [*(path.read_text("utf-8") for path in modules), *source_texts(binary.SOURCE)]


def _open(
    folder: Path,
    dependencies: Mapping[str, Any],
    request: _Request,
    temporary: object = None,
    just_written: bool = False,
) -> MoleculeStore:
    """The store in a folder.

    Raises:
        DamagedFileError: the store is missing, was changed or has other dependencies; or a worker died while it was
            written, so that molecules may be missing, and it was not just written.
    """
    try:
        if not just_written:
            check_parent_folders(
                folder / HEADER
            )  # other users who can write to the folder could change the checksums too
        header = json.loads((folder / HEADER).read_bytes())
        if header["dependencies"] != dependencies or (header["complete"] is not True and not just_written):
            raise DamagedFileError("it has other molecules, or is incomplete")
        files = {name: FileDigest(**file) for name, file in header["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(str(error)) from error
    packing = request.featurization.packing
    columns = RaggedColumns(folder, store_dtypes(packing), files)
    if columns.num_rows != len(request.smiles):
        raise DamagedFileError("it has another number of rows")
    return MoleculeStore(columns, packing, folder=temporary)


def _write(folder: Path, dependencies: Mapping[str, Any], request: _Request) -> Path:
    """Write a new store and sync it to disk; its folder is removed if that fails."""
    folder.mkdir()
    featurization, total, done, complete = request.featurization, len(request.smiles), 0, True
    packing = featurization.packing
    chunk_size = max(1, min(featurization.chunk_size, -(-total // max(1, request.num_workers))))
    pack = partial(pack_row, featurize=featurization.featurize, packing=packing)
    try:
        chunks = map_chunks(request.smiles, pack, min(request.num_workers, -(-total // chunk_size)), chunk_size)
        with RaggedWriter(folder, store_dtypes(packing)) as writer, closing(chunks):
            for _, outcomes in chunks:
                for outcome in outcomes:
                    if not isinstance(outcome, SmilesError):
                        writer.write(outcome)
                    elif featurization.stop_on_conformer_error and isinstance(outcome, ConformerError):
                        outcome.row = done
                        raise outcome
                    else:
                        # A row whose worker died may succeed next time: the store is not complete.
                        complete = complete and not isinstance(outcome, WorkerDied)
                        writer.write(pack_error(outcome))
                    done += 1
                    if request.progress is not None and (done % _ROWS_PER_PROGRESS == 0 or done == total):
                        request.progress(done, total)
        files = {name: asdict(file) for name, file in writer.files.items()}
        with open(folder / HEADER, "x", encoding="utf-8") as file:
            json.dump({"dependencies": dependencies, "complete": complete, "files": files}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _replace(new: Path, old: Path) -> None:
    """Move `new` to `old`, which is removed; on POSIX, processes that have mapped its files can still read them."""
    if old.exists():
        discarded = old.with_name(f".{old.name}.{secrets.token_hex(4)}.tmp")
        os.replace(old, discarded)
        shutil.rmtree(discarded, ignore_errors=True)
    os.replace(new, old)


def _remove_temporary_folders(folder: Path, key: str) -> None:
    """Remove the temporary folders that killed processes have left.

    A process that writes holds the lock of its key, and its folder is not removed. This process holds that of `key`.
    """
    for path in folder.glob(".*.tmp"):
        key_of_path = path.name[1:].split(".")[0]
        if key_of_path == key:
            shutil.rmtree(path, ignore_errors=True)
            continue
        with suppress(Timeout, OSError), FileLock(folder / f".{key_of_path}.lock", timeout=0):
            shutil.rmtree(path, ignore_errors=True)
