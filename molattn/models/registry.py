"""The model classes by kind."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from molattn.models.base import MoleculeModel
from molattn.models.config import ModelConfig


class _LazyModels(Mapping[str, type[MoleculeModel]]):
    """Model classes, each imported on first access, so that unused kinds are not imported."""

    def __init__(self, locations: Mapping[str, tuple[str, str]]):
        self._locations = locations

    def __getitem__(self, kind: str) -> type[MoleculeModel]:
        module, name = self._locations[kind]
        return getattr(import_module(module), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def __len__(self) -> int:
        return len(self._locations)


MODELS = _LazyModels(
    {
        "graph": ("molattn.models.graph_model", "GraphModel"),
        "smiles-transformer": ("molattn.models.smiles_model", "SmilesModel"),
    }
)


def build(config: ModelConfig, num_targets: int, of_atoms: bool = False, num_descriptors: int = 0) -> MoleculeModel:
    """The untrained model that `config` describes, for molecules with extra descriptors, or for atoms.

    Raises:
        ValueError: inconsistent settings.
    """
    return MODELS[config.kind](config, num_targets, of_atoms, num_descriptors)
