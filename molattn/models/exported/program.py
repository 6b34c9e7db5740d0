"""What is exported: all models of an artifact and the decoding, as one torch module of plain tensors."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molattn.attention import backend
from molattn.data.store.batches import MoleculeBatch, TokenBatch
from molattn.models.artifact import Artifact
from molattn.models.base import MoleculeModel
from molattn.models.exported.decode import Decoder
from molattn.models.exported.metadata import EMBEDDING, input_shapes

EXAMPLES = ("CCO", "CC(=O)N", "c1ccccc1O.[Na+]")
"""The molecules of the example batch. Their sizes differ, and none is 1: `torch.export` treats 1 as a constant."""


class ExportedProgram(nn.Module):
    """The outputs of a model, by name, from the tensors of a batch: see `molattn.models.exported.metadata`.

    Args:
        artifact: the model.
    """

    def __init__(self, artifact: Artifact):
        super().__init__()
        self.models = nn.ModuleList(artifact.models)
        self.decoder = Decoder(artifact)
        self.atom_level = artifact.task.atom_level

    def run(self, batch: Any) -> dict[str, Tensor]:
        """The outputs of a batch."""
        results: dict[str, Tensor] = {}
        models: list[Any] = [*self.models]
        if self.atom_level:
            outputs = torch.stack([model.padded_atom_outputs(batch) for model in models])
        else:
            embeddings = [model.embeddings(batch) for model in models]
            outputs = torch.stack([m.apply_head(x) for m, x in zip(models, embeddings, strict=True)])
            results[EMBEDDING] = embeddings[0]
        decoded = self.decoder(outputs)
        named = {"prediction": decoded.values, "distribution": decoded.distribution, "std": decoded.std}
        return {name: x for name, x in named.items() if x is not None} | {"outputs": outputs} | results


class GraphProgram(ExportedProgram):
    """The program of models that read graphs."""

    def forward(
        self,
        atom_codes: Tensor,
        bond_codes: Tensor,
        path_lengths: Tensor,
        mask: Tensor,
        distances: Tensor | None = None,
        descriptors: Tensor | None = None,
    ) -> dict[str, Tensor]:
        codes = atom_codes, bond_codes, path_lengths
        return self.run(MoleculeBatch(*codes, mask, distances=distances, descriptors=descriptors))


class TokenProgram(ExportedProgram):
    """The program of models that read tokens."""

    def forward(self, codes: Tensor, descriptors: Tensor | None = None) -> dict[str, Tensor]:
        return self.run(TokenBatch(codes, descriptors=descriptors))


PROGRAMS: dict[str, type[ExportedProgram]] = {"graph": GraphProgram, "smiles-transformer": TokenProgram}
"""The program by the kind of the model."""


def example_batch(artifact: Artifact) -> Any:
    """A batch of `EXAMPLES`, as the model reads them, with descriptors of 0."""
    model: MoleculeModel = artifact.model
    molecules = [model.reader(artifact.read_options)(smiles) for smiles in EXAMPLES]
    k = model.num_descriptors
    return model.collate(molecules, None, np.zeros((len(molecules), k), np.float32) if k else None)


def trace(artifact: Artifact) -> torch.export.ExportedProgram:
    """The program with any number of molecules, and of atoms or tokens."""
    batch, shapes = example_batch(artifact), input_shapes(artifact)
    dynamic = torch.export.Dim.DYNAMIC
    dims = {
        name: {i: dynamic for i, size in enumerate(shape) if isinstance(size, str)} for name, shape in shapes.items()
    }
    program = PROGRAMS[artifact.model.config.kind](artifact).eval()
    with backend("reference"):
        return torch.export.export(
            program, (), {name: getattr(batch, name) for name in shapes}, dynamic_shapes=dims, strict=False
        )
