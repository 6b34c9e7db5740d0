"""The pages of the data sets: their cards, and pictures of the tables that are included."""

import re
from collections import Counter
from html import escape
from pathlib import Path

import numpy as np
from rdkit import Chem

from molattn.chem import read_smiles
from molattn.data import DatasetCard, column, dataset_names, group_of, load_card, read_table
from molattn.errors import SmilesError
from molattn_docs.dataset_pictures import histogram, molecule_grid

ROOT = Path(__file__).parents[3]
_MOLECULES = 12
"""Molecules in the picture of a data set."""
_DOI = re.compile(r"doi:(10\.\S+?)(?=[.,;)]?(?:\s|$))")


def write_index(_: str) -> str:
    """A table of the data sets without a group, one of the groups, and the contents of the part."""
    names = [name for name in dataset_names() if not group_of(name)]
    groups = Counter(filter(None, map(group_of, dataset_names())))
    rows = [
        [f"[`{card.name}`]({card.name}.md)", _rows(card), _targets_in_short(card), card.task, _where(card)]
        for card in map(load_card, names)
    ]
    table = _table(["data set", "rows", "targets", "task", "the table"], rows)
    others = _table(["group", "data sets"], [[f"[`{group}`]({group}.md)", f"{n}"] for group, n in groups.items()])
    return "\n".join([table, "", others, "", "```{toctree}", ":hidden:", "", *names, *groups, "```"])


def write_group(group: str) -> str:
    """The page of a group of data sets, as Markdown, without its title."""
    cards = [load_card(name) for name in dataset_names() if group_of(name) == group]
    rows = [
        [f"`{card.name}`", _linked(card.title.partition(": ")[2]), _rows(card), _targets_in_short(card), card.metric]
        for card in cards
    ]
    urls = {url for card in cards if card.download is not None for url in card.download.urls}
    parts = [
        _table(["data set", "what", "rows", "target", "metric"], rows),
        f"From {' '.join(f'<{url}>' for url in sorted(urls))}." if len(urls) == 1 else "",
        "## Licence",
        _shared([(card.name, card.licence) for card in cards]),
        "## Notes",
        _shared([(card.name, note) for card in cards for note in card.notes]),
        "## To cite",
        _shared([(card.name, text) for card in cards for text in card.citation]),
    ]
    return "\n\n".join(filter(None, parts))


def _shared(texts: list[tuple[str, str]]) -> str:
    """A list of the texts of data sets, each once, with the names of the data sets unless it is of all of them."""
    names: dict[str, list[str]] = {}
    for name, text in texts:
        names.setdefault(text, []).append(f"`{name}`")
    count = len(dict(texts))
    return "\n".join(
        f"- {_linked(text)}" + ("" if len(of) == count else f" ({', '.join(of)})") for text, of in names.items()
    )


def write_page(name: str) -> str:
    """The page of one data set, as Markdown, without its title."""
    card = load_card(name)
    parts = [
        f"**{card.title}.**",
        f"```bash\nmolattn train --dataset {card.name}\n```",
        _table(["what", "value"], [[label, text] for label, text in _facts(card) if text]),
        "## Targets",
        _targets(card),
    ]
    if card.path.is_file():
        parts += _pictures(card)
    if card.notes:
        parts += ["## Notes", "\n".join(f"- {_linked(note)}" for note in card.notes)]
    parts += ["## To cite", "\n".join(f"- {_linked(text)}" for text in card.citation)]
    return "\n\n".join(parts)


def _facts(card: DatasetCard) -> list[tuple[str, str]]:
    urls = () if card.download is None else card.download.urls
    return [
        ("task", f"{card.task}, reported in {card.metric.upper()}"),
        ("usual split", f"`{card.split}`"),
        ("rows", _rows(card)),
        ("column of SMILES", f"`{card.smiles_column}`"),
        ("the table", _where(card)),
        ("file", ", ".join(f"<{url}>" for url in urls)),
        ("splits that come along", ", ".join(f"`{split}`" for split in _splits(card.name))),
        ("source", card.source),
        ("licence", card.licence),
        ("results", f"[accuracy](../../accuracy.md#{card.name})" if _has_results(card.name) else ""),
    ]


def _rows(card: DatasetCard) -> str:
    return "unknown" if card.rows is None else f"{card.rows:,}"


def _where(card: DatasetCard) -> str:
    if card.computed:
        return "computed by RDKit at its first use"
    return "comes along" if card.download is None else "downloaded at its first use"


def _targets_in_short(card: DatasetCard) -> str:
    if len(card.targets) != 1:
        return f"{len(card.targets)}" if card.targets else "every other column"
    target = card.targets[0]
    return f"`{target.name}`" + (f", {target.unit}" if target.unit else "")


def _targets(card: DatasetCard) -> str:
    if not card.targets:
        return f"Every column of the file except `{card.smiles_column}` is a target."
    rows = [[f"`{t.name}`", t.unit or "none", t.description] for t in card.targets]
    rows += [
        [f"`{t.name}`, a list with a value for each atom", t.unit or "none", t.description] for t in card.atom_targets
    ]
    return _table(["column", "unit", "what"], rows)


def _splits(name: str) -> list[str]:
    folder = ROOT / "datasets" / "splits"
    single = [path.stem.removeprefix(f"{name}-") for path in folder.glob(f"{name}-*.csv")]
    table = folder / f"{name}.csv"
    columns = read_table(table).columns[1:] if table.is_file() else []
    return sorted(single or columns)


def _has_results(name: str) -> bool:
    return f"\n## {name}\n" in (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")


def _pictures(card: DatasetCard) -> list[str]:
    """The distribution of each target, and molecules across the range of the first."""
    table = read_table(card.path)
    smiles, parts = column(table, card.smiles_column), []
    mols = [_molecule(text) for text in smiles]
    for target in card.targets:
        y = np.array([float(cell) for cell in column(table, target.name)])
        parts.append(histogram(y, f"{target.name} in {target.unit}" if target.unit else target.name))
        parts.append(_in_words(y))
    sizes = np.array([mol.GetNumAtoms() for mol in mols if mol is not None])
    parts += [
        "## Molecules",
        f"A molecule has {sizes.mean():.1f} atoms on average, without hydrogens, and at most {sizes.max()}. "
        f"Below are {_MOLECULES} of them, from the least to the largest `{card.targets[0].name}`.",
    ]
    values = [float(cell) for cell in column(table, card.targets[0].name)]
    order: list[int] = [i for i in np.argsort(values, kind="stable").tolist() if mols[i] is not None]
    chosen: list[int] = [order[i] for i in np.linspace(0, len(order) - 1, _MOLECULES).round().astype(int).tolist()]
    unit = card.targets[0].unit
    drawn = [(mol, smiles[i], f"{values[i]:.2f} {unit}".strip()) for i in chosen if (mol := mols[i]) is not None]
    parts.append(molecule_grid(drawn))
    return parts


def _in_words(y: np.ndarray) -> str:
    least, first, median, third, largest = (f"{value:.2f}" for value in np.percentile(y, [0, 25, 50, 75, 100]))
    return (
        f"From {least} to {largest}, half of the rows from {first} to {third}. The median is {median}, "
        f"the mean {y.mean():.2f}, the standard deviation {y.std():.2f}."
    )


def _molecule(smiles: str) -> Chem.Mol | None:
    try:
        return read_smiles(smiles)
    except SmilesError:
        return None


def _linked(text: str) -> str:
    """A citation with its DOI as a link."""
    return _DOI.sub(lambda doi: f"[doi:{doi[1]}](https://doi.org/{doi[1]})", escape(text, quote=False))


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
