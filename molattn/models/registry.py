"""The models by their kind."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from molattn.models.base import MoleculeModel
from molattn.models.config import ModelConfig


class _Models(Mapping[str, type[MoleculeModel]]):
    """Classes of models, each imported when it is asked for: who predicts with one needs no other."""

    def __init__(self, places: Mapping[str, tuple[str, str]]):
        self._places = places

    def __getitem__(self, kind: str) -> type[MoleculeModel]:
        module, name = self._places[kind]
        return getattr(import_module(module), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


MODELS = _Models(
    {
        "graph": ("molattn.models.graph_model", "GraphModel"),
        "smiles-transformer": ("molattn.models.smiles_model", "SmilesModel"),
    }
)


def build(config: ModelConfig, num_targets: int, of_atoms: bool = False, num_descriptors: int = 0) -> MoleculeModel:
    """The untrained model that `config` describes, of molecules with so many descriptors beside them, or of atoms.

    Raises:
        ValueError: settings that do not go together.
    """
    return MODELS[config.kind](config, num_targets, of_atoms, num_descriptors)
