"""The interface of molecules that models read; without torch and RDKit."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Molecule(Protocol):
    """The input of a model for one SMILES: a graph of atoms, or a row of tokens.

    Attributes:
        smiles: the SMILES as in the input, or that of the standard form if molecules are standardized.
        encoded_smiles: the SMILES whose atoms or tokens are encoded, in their order.
        labels: the labels of its positions (atoms or tokens), in order.
        size: the number of positions.
        warnings: features of the molecule that the model cannot represent, one sentence each.
    """

    @property
    def smiles(self) -> str: ...
    @property
    def encoded_smiles(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
