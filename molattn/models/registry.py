"""The models by their kind."""

from molattn.models.base import MoleculeModel
from molattn.models.config import ModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.smiles_model import SmilesModel

MODELS: dict[str, type[MoleculeModel]] = {"graph": GraphModel, "smiles-transformer": SmilesModel}


def build(config: ModelConfig, num_targets: int, of_atoms: bool = False, num_descriptors: int = 0) -> MoleculeModel:
    """The untrained model that `config` describes, of molecules with so many descriptors beside them, or of atoms.

    Raises:
        ValueError: settings that do not go together.
    """
    return MODELS[config.kind](config, num_targets, of_atoms, num_descriptors)
