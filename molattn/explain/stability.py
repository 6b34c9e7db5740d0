"""Stability of attributions: for a randomized SMILES of the molecule, small noise in the weights, and another seed."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from molattn.chem import MoleculeGraph, read_smiles
from molattn.chem.generate import reordered_smiles
from molattn.explain.attributor import Attributor, read_molecules
from molattn.explain.estimates import Estimate, estimate_mean
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel

SPELLING, NOISE, SEED = PERTURBATIONS = ("spelling", "noise", "seed")
NOISE_SIZE = 0.01
"""Standard deviation of the relative noise of each weight."""
NO_SEEDS = "one model"
"""Why there is no stability for another seed: the model is not an ensemble."""


def score_stability(
    attributor: Attributor,
    molecules: Sequence[tuple[MoleculeGraph, int]],
    seed: int,
    report: Callable[[int], None],
) -> dict[str, dict[str, Estimate]]:
    """By method, "spelling", "noise" and "seed": the mean r between the values of a molecule and those after a change.

    - "spelling": of a randomized SMILES of the same molecule, whose atoms have another order;
    - "noise": with each weight w of the model replaced by w (1 + `NOISE_SIZE` z), z normal;
    - "seed": with the second model of an ensemble, which was trained with the next seed.

    A molecule whose values are all equal has no r, and does not count.

    Args:
        attributor: the methods.
        molecules: each with the index of its explained output.
        seed: of the randomized SMILES and the noise.
        report: called after each method with 1.
    """
    perturbed = {NOISE: attributor.with_model(with_noise(attributor.artifact.model, seed))}
    if attributor.artifact.other_models:
        second = attributor.artifact.other_models[0]
        perturbed[SEED] = attributor.with_model(second)  # pyright: ignore[reportArgumentType]
    max_atoms = attributor.artifact.read_options.max_atoms
    randomized = [
        reordered_smiles(read_smiles(m.encoded_smiles, max_atoms=max_atoms), seed + k)
        for k, (m, _) in enumerate(molecules)
    ]
    reordered = read_molecules(attributor.artifact, [smiles for smiles, _ in randomized])
    found = {}
    for name in attributor.all_names:
        correlations: dict[str, list[float]] = {key: [] for key in PERTURBATIONS}
        for (m, output), (_, order), other in zip(molecules, randomized, reordered, strict=True):
            values = attributor.terms(name, m, output).values
            if other is not None and len(order) == len(values):
                correlations[SPELLING] += _correlation(values[order], attributor.terms(name, other, output).values)
            for key, attributor_of_key in perturbed.items():
                correlations[key] += _correlation(values, attributor_of_key.terms(name, m, output).values)
        found[name] = {
            key: estimate_mean(np.array(r), np.arange(len(r))[:, None], "molecules")
            if key == SPELLING or key in perturbed
            else Estimate(None, why=NO_SEEDS)
            for key, r in correlations.items()
        }
        report(1)
    return found


def with_noise(model: object, seed: int) -> GraphModel:
    """A copy of the model with each weight w replaced by w (1 + `NOISE_SIZE` z), z normal."""
    assert isinstance(model, GraphModel)
    assert isinstance(model.config, GraphModelConfig)
    noisy = GraphModel(model.config, model.head.out_features, num_descriptors=model.num_descriptors)
    noisy = noisy.to(model.head.weight.device)
    noisy.load_state_dict(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in noisy.parameters():
            p.mul_(1 + NOISE_SIZE * torch.randn(p.shape, generator=generator).to(p))
    return noisy.eval().requires_grad_(False)


def _correlation(a: np.ndarray, b: np.ndarray) -> list[float]:
    """Pearson's r of two attributions of a molecule; none if the first are equal, 0 if only the second are."""
    if np.ptp(a) <= 1e-9 * max(np.abs(a).max(), 1e-300):
        return []
    if np.ptp(b) <= 1e-9 * max(np.abs(b).max(), 1e-300):
        return [0.0]
    return [float(np.corrcoef(a, b)[0, 1])]
