"""Categorical features: names, and labels of codes; element symbols; and the atoms and bonds of a molecule in order."""

from dataclasses import dataclass, field

from rdkit import Chem

UNKNOWN = "unknown"

ELEMENT_SYMBOLS = ("*", *(Chem.GetPeriodicTable().GetElementSymbol(z) for z in range(1, 119)))
"""Element symbols by atomic number; the first is that of the dummy atom."""


@dataclass(frozen=True)
class Feature:
    """One categorical feature; its codes are 0 .. size - 1.

    Attributes:
        name: its name, also in tables and legends.
        labels: `labels[code]` is the label of a code.

    Raises:
        ValueError: `labels` are not 1 to 256 different strings: their codes must fit into one byte.

    >>> from molattn.chem import Feature
    >>> stereo = Feature("stereo", ("none", "E", "Z"))
    >>> stereo.index["Z"], stereo.labels[2], stereo.size
    (2, 'Z', 3)
    """

    name: str
    labels: tuple[str, ...]
    index: dict[str, int] = field(init=False, repr=False, compare=False)
    """`index[label]` is the code of a label."""

    def __post_init__(self):
        index = {label: code for code, label in enumerate(self.labels)}
        if not 0 < len(index) == len(self.labels) <= 256:
            raise ValueError(f"feature {self.name!r}: labels must be 1 to 256 different strings")
        object.__setattr__(self, "index", index)

    @property
    def size(self) -> int:
        """Number of codes, the `num_embeddings` of an embedding."""
        return len(self.labels)


def get_atoms(mol: Chem.Mol) -> list[Chem.Atom]:
    """All atoms, in order. Faster than `mol.GetAtoms()`, which checks at each step that the molecule is unchanged."""
    return [mol.GetAtomWithIdx(i) for i in range(mol.GetNumAtoms())]


def output_order(mol: Chem.Mol) -> list[int]:
    """The indices of the atoms in the order in which `Chem.MolToSmiles` has last written them."""
    return list(mol.GetPropsAsDict(includePrivate=True, includeComputed=True).get("_smilesAtomOutputOrder", ()))


def get_bonds(mol: Chem.Mol) -> list[Chem.Bond]:
    """All bonds, in order."""
    return [mol.GetBondWithIdx(i) for i in range(mol.GetNumBonds())]
