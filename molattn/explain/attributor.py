"""The attributions of several methods, each molecule computed once; and how to read and predict molecules for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import MoleculeBatch, collate
from molattn.errors import SmilesError
from molattn.explain.fragment_shapley import FRAGMENT_SHAPLEY, fragment_shapley
from molattn.explain.methods import METHODS, random_attributions
from molattn.explain.terms import MoleculeOrBatch, Terms
from molattn.models.artifact import Artifact
from molattn.models.descriptor_stream import molecule_descriptors
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs

RANDOM = "random"
"""The name of the random baseline among the methods."""

TermsFunction = Callable[[MoleculeGraph, MoleculeOrBatch, int], Terms]


@dataclass
class Attributor:
    """The attributions of a model by several methods and by the random baseline, `RANDOM`.

    Attributes:
        artifact: the model.
        names: the methods, without the baseline.
        seed: of the baseline.
    """

    artifact: Artifact
    names: Sequence[str]
    seed: int = 0
    _functions: Mapping[str, TermsFunction] = field(init=False, repr=False)
    _cache: dict[tuple[str, str, int], Terms] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self):
        self._functions = _functions(self.artifact, self.names, self.seed)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The methods and the baseline."""
        return tuple(self._functions)

    def terms(self, name: str, molecule: MoleculeGraph, output: int, batch: MoleculeBatch | None = None) -> Terms:
        """The attribution of one output of a molecule by one method, finite, in the order of its atoms.

        Raises:
            SmilesError: it is not finite.
        """
        key = (name, molecule.encoded_smiles, output)
        if key not in self._cache:
            terms = self._functions[name](molecule, batch or self.batch(molecule), output)
            check_finite(molecule, {name: terms.values}, "attributions")
            self._cache[key] = terms
        return self._cache[key]

    def batch(self, molecule: MoleculeGraph) -> MoleculeBatch:
        """A batch of one molecule, with its descriptors."""
        return collate([molecule], None, descriptors_of(self.artifact, [molecule]))

    def with_model(self, model: GraphModel) -> "Attributor":
        """The same methods for another model of the same architecture."""
        return Attributor(replace(self.artifact, model=model, other_models=()), self.names, self.seed)


def descriptors_of(artifact: Artifact, molecules: Sequence[MoleculeGraph]) -> np.ndarray | None:
    """The standardized descriptors that the model computes, (n, k); None if it reads none."""
    scaler = artifact.descriptors
    if scaler is None:
        return None
    return scaler.scale(np.array([molecule_descriptors(m, scaler.computed) for m in molecules]))


def read_molecules(artifact: Artifact, smiles: Sequence[str]) -> list[MoleculeGraph | None]:
    """The molecules; None for those that cannot be read, or whose atoms in the model are not those of the SMILES."""
    read = artifact.model.read(smiles, artifact.read_options)
    return [
        m if isinstance(m, MoleculeGraph) and m.encoded_smiles == text else None
        for m, text in zip(read, smiles, strict=True)
    ]


def outputs_of(artifact: Artifact, molecules: Sequence[MoleculeGraph]) -> np.ndarray:
    """The outputs of the model, (n, outputs); NaN where it has none."""
    outputs = compute_outputs(
        artifact.model, molecules, descriptors=descriptors_of(artifact, molecules), failures=(failures := {})
    )
    outputs[list(failures)] = np.nan
    return outputs


def check_finite(molecule: MoleculeGraph, values: Mapping[str, np.ndarray], what: str) -> None:
    """Raise SmilesError if there is a number that is not finite, as the mean over molecules would not be either."""
    for name, numbers in values.items():
        if not np.isfinite(numbers).all():
            raise SmilesError(molecule.smiles, f"its {what} by the method {name} are not finite: measure other methods")


def _functions(artifact: Artifact, names: Sequence[str], seed: int) -> dict[str, TermsFunction]:
    model, random = artifact.model, random_attributions(seed)
    assert isinstance(model, GraphModel)
    functions: dict[str, TermsFunction] = {}
    for name in names:
        if name == FRAGMENT_SHAPLEY:
            functions[name] = lambda molecule, _, output: fragment_shapley(artifact, molecule, output)
        else:
            functions[name] = lambda _, batch, output, compute=METHODS[name].compute: compute(model, batch, output)
    return functions | {RANDOM: lambda _, batch, output: random(model, batch, output)}
