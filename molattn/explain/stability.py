"""Stability of attributions: under another spelling of the molecule, small noise in the weights, and another seed."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from molattn.chem import MoleculeGraph, read_smiles
from molattn.chem.generate import reordered_smiles
from molattn.explain.attributor import Attributor, read_molecules
from molattn.explain.estimates import Estimate, estimate_mean
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel

SPELLING, NOISE, SEED = STABILITIES = ("spelling", "noise", "seed")
NOISE_SIZE = 0.01
"""Standard deviation of the relative noise of each weight."""
NO_SEEDS = "one model"
"""Why there is no stability under seed."""


def score_stability(
    attributor: Attributor,
    molecules: Sequence[tuple[MoleculeGraph, int]],
    seed: int,
    report: Callable[[int], None],
) -> dict[str, dict[str, Estimate]]:
    """By method, "spelling", "noise" and "seed": the mean r between the values of a molecule and those after a change.

    - "spelling": of the same molecule, its SMILES written from another atom on, in another order;
    - "noise": of the model with each weight w (1 + `NOISE_SIZE` z), z normal;
    - "seed": of the second model of an ensemble, which was trained with the next seed.

    A molecule whose values are all equal has no r, and does not count.

    Args:
        attributor: the methods.
        molecules: each with the index of its explained output.
        seed: of the spellings and the noise.
        report: called after each method with 1.
    """
    others = {NOISE: attributor.like(with_noise(attributor.artifact.model, seed))}
    if attributor.artifact.other_models:
        others[SEED] = attributor.like(attributor.artifact.other_models[0])  # pyright: ignore[reportArgumentType]
    max_atoms = attributor.artifact.read_options.max_atoms
    spellings = [
        reordered_smiles(read_smiles(m.encoded_smiles, max_atoms=max_atoms), seed + k)
        for k, (m, _) in enumerate(molecules)
    ]
    spelled = read_molecules(attributor.artifact, [text for text, _ in spellings])
    found = {}
    for name in attributor.all_names:
        agreements: dict[str, list[float]] = {key: [] for key in STABILITIES}
        for (m, output), (_, order), other in zip(molecules, spellings, spelled, strict=True):
            values = attributor.terms(name, m, output).values
            if other is not None and len(order) == len(values):
                agreements[SPELLING] += _correlation(values[order], attributor.terms(name, other, output).values)
            for key, another in others.items():
                agreements[key] += _correlation(values, another.terms(name, m, output).values)
        found[name] = {
            key: estimate_mean(np.array(r), np.arange(len(r))[:, None], "molecules")
            if key == SPELLING or key in others
            else Estimate(None, why=NO_SEEDS)
            for key, r in agreements.items()
        }
        report(1)
    return found


def with_noise(model: object, seed: int) -> GraphModel:
    """A copy of the model with each weight w (1 + `NOISE_SIZE` z), z normal."""
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
