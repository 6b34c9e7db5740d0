"""The report of a run, or of two: one HTML file of their molecules, errors, heads and settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from molattn.chem import MAX_ATOMS
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.units import find_without_unit
from molattn.errors import UsageError
from molattn.inference.report_parts import measure_parts
from molattn.viewer.report.comparison import align, comparison_payload
from molattn.viewer.report.document import report_document
from molattn.viewer.report.names import names_of_run
from molattn.viewer.report.payload import report_payload
from molattn.viewer.report.run_files import RunFiles, read_run
from molattn.viewer.web.document import write_document

MAX_MOLECULES, MAX_TARGETS = 5000, 12


class ReportSize(NamedTuple):
    """What a report shows.

    Attributes:
        molecules: how many it shows.
        of: how many the run has, or both runs have in common.

    >>> from molattn.inference import ReportSize
    >>> size = ReportSize(molecules=5000, of=12000)
    >>> f"{size.molecules} of {size.of}"
    '5000 of 12000'
    """

    molecules: int
    of: int


def write_report(
    path: str | Path,
    run: str | Path,
    other: str | Path | None = None,
    *,
    table: str | Path | None = None,
    names_column: str = "",
    smiles_column: str = "",
    table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
    targets: Sequence[str] = (),
    smarts: Mapping[str, str] | None = None,
    max_molecules: int = MAX_MOLECULES,
) -> ReportSize:
    """Write the report of a run, or of two side by side, as one HTML file that needs no network.

    It is made of the files of the run. Where the folder has the model too, it adds intervals, out-of-domain flags, what
    heads attend to, and what atoms contribute to the largest errors. For what was not measured, it has the command that
    measures it.

    Args:
        path: the file, .html or .htm; one that exists is replaced.
        run: the folder of a finished run with targets of molecules.
        other: a second run, of the same molecules or some of them; None for none.
        table: a table with names of the molecules; None for that of the run, if it is where it was.
        names_column: its column of names; guessed by its name if empty.
        smiles_column, table_options: how the table is read.
        targets: the names of the targets to show; the first 12 if empty.
        smarts: SMARTS by name, which the molecules can be searched for in addition to functional groups and rings.
        max_molecules: largest number of molecules; test molecules come first, others are sampled at random.

    Raises:
        UsageError: another suffix, a folder without predictions, targets of atoms, an unknown target or column, or a
            SMARTS that cannot be read.
        InputError: a file that cannot be read, or two runs with nothing in common.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import molattn
    >>> from molattn.inference import write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "boiling.csv")
    ...     _ = table.write_text("smiles,bp\\n" + "".join(f"{n * 'C'}O,{50 + 18 * n}\\n" for n in range(1, 11)))
    ...     run = molattn.train(table, output_dir=f"{folder}/run", epochs=1, hidden_dim=8, num_layers=1, quiet=True)
    ...     write_report(f"{folder}/report.html", run.folder, smarts={"hydroxyl": "[OX2H]"})
    ReportSize(molecules=10, of=10)
    """
    files = _with_targets(read_run(run), targets)
    max_atoms = _max_atoms(files)
    second = None
    if other is not None:
        files, second = align(files, read_run(other), max_atoms)
    total = len(files.smiles)
    chosen = choose_molecules(files.splits, max_molecules)
    files = files.select(chosen)
    note = (
        ""
        if len(chosen) == total
        else (
            f"The report shows {len(chosen):,} of {total:,} molecules: test molecules first, others sampled at random. "
            "Metrics are computed from all molecules."
        )
    )
    names = names_of_run(files, table, names_column, smiles_column, table_options)
    common = {"names": names, "smarts": smarts, "max_atoms": max_atoms, "note": note}

    def document() -> str:
        if second is not None:
            return report_document(comparison_payload(files, second.select(chosen), **common))
        return report_document(report_payload(files, measure_parts(files), **common))

    write_document(path, document)
    return ReportSize(len(chosen), total)


def choose_molecules(splits: Sequence[str], limit: int, seed: int = 0) -> np.ndarray:
    """The indices of at most `limit` molecules, in order: test molecules first, then a random sample of the others."""
    rng = np.random.default_rng(seed)
    is_test = np.array(splits) == "test"
    order = np.concatenate([rng.permutation(np.flatnonzero(is_test)), rng.permutation(np.flatnonzero(~is_test))])
    return np.sort(order[:limit])


def _with_targets(run: RunFiles, names: Sequence[str]) -> RunFiles:
    known = {target.name: target for target in run.targets}
    names = [find_without_unit([*known], name) for name in names]
    for name in names:
        if name not in known:
            raise UsageError(f"{run.folder} has no target {name!r}: choose one of {', '.join(known)}")
    chosen = [known[name] for name in names] if names else list(run.targets)[:MAX_TARGETS]
    return RunFiles(**{**vars(run), "targets": tuple(chosen)})


def _max_atoms(run: RunFiles) -> int:
    limit = run.config.get("data", {}).get("max_atoms", MAX_ATOMS)
    return limit if isinstance(limit, int) else MAX_ATOMS
