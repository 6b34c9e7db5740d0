"""Attention maps of molecules, with the prediction of the model for each."""

from collections.abc import Iterator, Sequence

import numpy as np

from molattn.errors import SmilesError
from molattn.explain import AttentionMap
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.batching import NOT_FINITE
from molattn.models.predict import compute_outputs, iter_attention
from molattn.models.tasks import Multiclass


def iter_maps(
    a: Artifact, molecules: Sequence[Molecule], z: np.ndarray | None, faithfulness: str
) -> Iterator[AttentionMap | SmilesError]:
    """The attention map of each molecule, or an error where the model's output is not finite.

    Args:
        a: the model.
        molecules: n molecules.
        z: (n, k), their standardized descriptors. If the model reads descriptors and z is None, the maps have no
            prediction.
        faithfulness: of the model's attention, for the footer of pictures.
    """
    if a.trees is not None:
        faithfulness = f"{a.trees.describe_share()}; {faithfulness}"
    count = len(a.models)
    if count > 1:
        faithfulness = f"of the first of {count} models, whose mean is the prediction; {faithfulness}"
    without_prediction = z is None and a.descriptors is not None
    if z is None and a.descriptors is not None:  # attention does not depend on descriptors
        z = np.zeros((len(molecules), len(a.descriptors.names)))
    # The attention is that of the first model, the prediction that of the ensemble.
    further_models = () if a.task.atom_level else a.models[1:]
    others = [compute_outputs(model, molecules, descriptors=z, failures={}) for model in further_models]
    for i, (molecule, (outputs, weights)) in enumerate(
        zip(molecules, iter_attention(a.model, molecules, z), strict=True)
    ):
        with np.errstate(over="ignore", invalid="ignore"):
            decoded = a.task.decode(outputs if a.task.atom_level else outputs[None], a.scaler)
            if others:
                decoded = a.task.ensemble_mean([decoded, *(a.task.decode(x[i : i + 1], a.scaler) for x in others)])
            failures: dict[int, str] = {}
            if a.trees is not None:
                features = a.trees.features([molecule], failures)
                decoded = a.trees.combine(a.task, a.scaler, decoded, features)
            decoded = a.scaler.inverse_transform(decoded)
        if failures:
            yield SmilesError(molecule.smiles, failures[0])
            continue
        if not all(np.isfinite(x).all() for x in (outputs, weights, decoded.values, decoded.distribution)):
            yield SmilesError(molecule.smiles, NOT_FINITE)
            continue
        if a.task.atom_level or without_prediction:
            names, values, units = [], [], []  # no prediction of the whole molecule
        elif isinstance(a.task, Multiclass):
            names = a.task.distribution_columns(a.targets)
            values, units = decoded.distribution[0].tolist(), [""] * len(names)
        else:
            names, values, units = a.targets, decoded.values[0].tolist(), a.units
        yield AttentionMap(
            smiles=molecule.encoded_smiles,
            symbols=molecule.labels,
            weights=weights,
            prediction=dict(zip(names, values, strict=True)),
            units=dict(zip(names, units, strict=True)),
            add_hs=a.read_options.add_hs,
            virtual=a.model.virtual_labels,
            rows_sum_to_one=a.model.rows_sum_to_one,
            position_type=a.model.position_type,
            faithfulness=faithfulness,
        )
