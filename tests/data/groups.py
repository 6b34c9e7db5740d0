"""Files of benchmark groups, as they are published, with made-up labels of molecules of ESOL."""

import csv
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from molattn.data import column, load_card, read_table

NUM_TRAIN, NUM_TEST = 90, 30


def esol_smiles() -> list[str]:
    """The first molecules of ESOL, each once."""
    return list(dict.fromkeys(column(read_table(load_card("esol").path), "smiles")))[: NUM_TRAIN + NUM_TEST]


def made_up_label(smiles: str) -> float:
    """A number that depends on the SMILES alone, most of all on its carbon atoms."""
    return smiles.upper().count("C") / 2 + len(smiles) % 7 / 4 + len(smiles) / 100


def _text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([columns, *rows])
    return file.getvalue()


def tdc_files(name: str, is_binary: bool = False) -> dict[str, str]:
    """train_val.csv and test.csv of a task of TDC, by their paths in its archive."""
    smiles, files = esol_smiles(), {}
    for part, rows in (("train_val", smiles[:NUM_TRAIN]), ("test", smiles[NUM_TRAIN:])):
        labels = [made_up_label(text) for text in rows]
        cells = [
            (f"m{i}", text, int(y > 5) if is_binary else y)
            for i, (text, y) in enumerate(zip(rows, labels, strict=True))
        ]
        files[f"admet_group/{name}/{part}.csv"] = _text(("Drug_ID", "Drug", "Y"), cells)
    return files


def moleculeace_file() -> str:
    """The table of a target of MoleculeACE; each fifth row is a test row, each other molecule on an activity cliff."""
    columns = ("smiles", "exp_mean [nM]", "y", "cliff_mol", "split", "y [pEC50/pKi]")
    rows = [
        (text, 10.0, -1.0, i % 2, "test" if i % 5 == 0 else "train", made_up_label(text))
        for i, text in enumerate(esol_smiles())
    ]
    return _text(columns, rows)


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder, which is returned."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def zip_files(files: dict[str, str]) -> bytes:
    """An archive of the files."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return archive.getvalue()
