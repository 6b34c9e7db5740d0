"""Shapley values of atoms over connected fragments, each of them a molecule that the model predicts."""

from collections.abc import Sequence

import numpy as np

from molattn.chem import MAX_ATOMS, Fragments
from molattn.errors import SmilesError
from molattn.explain.terms import Terms
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.descriptor_stream import molecule_descriptors
from molattn.models.predict import compute_outputs

FRAGMENT_SHAPLEY = "fragment-shapley"
FRAGMENT_SHAPLEY_TITLE = "the change of the prediction as the atom joins a fragment"

MAX_EXACT = 1024
"""The largest number of connected fragments of a molecule for which all orders are summed."""

SAMPLED_ORDERS = 32
"""The number of orders of a molecule with more fragments."""

Fragment = frozenset[int]
Steps = dict[tuple[Fragment, int], float]


def fragment_shapley(
    artifact: Artifact, molecule: Molecule, output: int, known: dict[str, np.ndarray] | None = None
) -> Terms:
    """The mean change of the output as an atom joins a growing fragment of the molecule (connected Shapley values).

    value_i = E_o [f(S_o(i) + i) - f(S_o(i))],   constant = mean_i f({i}),   output = constant + sum_i value_i

    An order o grows the molecule from a random first atom, atom by atom, each a random one of those that are bonded to
    the fragment; S_o(i) is the fragment before i. f is the model's output for the fragment as a molecule of its own,
    with hydrogens for the bonds that are cut: never for a graph with holes. The expectation is exact for molecules of
    at most `MAX_EXACT` connected fragments, and else the mean over `SAMPLED_ORDERS` orders, always the same ones.

    Bonded atoms of opposite charges join together and share their value, and equivalent atoms have the same value. A
    fragment that RDKit or the model rejects has the mean output of the fragments that are one unit smaller.

    Descriptors that the model computes are those of each fragment, so that what they contribute is part of the atoms'
    values. In a salt, the next atom is one of another component when no bonded atom is left.

    Args:
        artifact, molecule: the model and the molecule.
        output: the index of the output.
        known: receives all outputs of each fragment by its SMILES; those in it are not computed again. Similar
            molecules have many fragments in common, and all outputs of a model have the same ones.

    Source: connected coalitions as in C-Shapley, Chen et al. (2019), ICLR, arXiv:1808.02610, and in Myerson (1977),
    Math. Oper. Res. 2, 225, doi:10.1287/moor.2.3.225; orders that are not equally likely as in Weber (1988),
    Probabilistic values for games; only inputs that occur as data as in Frye et al. (2021), ICLR, arXiv:2006.01272.
    """
    fragments = Fragments(molecule.encoded_smiles, artifact.read_options.max_atoms)
    first, steps = growth_steps(fragments.neighbors)
    outputs = _fragment_outputs(artifact, fragments, steps, output, {} if known is None else known)
    unit_values = np.zeros(len(fragments.units))
    for (before, unit), weight in steps.items():
        unit_values[unit] += weight * (outputs[before | {unit}] - outputs[before])
    values = np.zeros(len(fragments.symmetry))
    for unit, value in zip(fragments.units, unit_values, strict=True):
        values[list(unit)] = value / len(unit)
    symmetry = np.array(fragments.symmetry)
    values = np.array([values[symmetry == s].mean() for s in symmetry])
    constant = sum(weight * outputs[frozenset({unit})] for unit, weight in first.items())
    return Terms(values, float(constant), adds_up=True)


def unsupported_reason(artifact: Artifact) -> str:
    """Why fragments of a molecule cannot be predicted; empty if they can."""
    options, scaler = artifact.read_options, artifact.descriptors
    if options.add_hs:
        return "the model reads hydrogens as atoms, and a fragment has some that the molecule does not have"
    if options.conformers is not None:
        return "the model reads 3D geometries, and those of fragments differ from that of the molecule"
    if scaler is not None and scaler.provided:
        return f"the model reads descriptor columns, which fragments do not have: {', '.join(scaler.provided)}"
    return ""


def growth_steps(neighbors: Sequence[Sequence[int]]) -> tuple[dict[int, float], Steps]:
    """The probability of each first unit, and of each step of a growing fragment: the fragment before it and the unit.

    Exact up to `MAX_EXACT` fragments, and else the frequencies in `SAMPLED_ORDERS` random orders.
    """
    n = len(neighbors)
    level: dict[Fragment, float] = {frozenset({u}): 1 / n for u in range(n)}
    first, steps, num_fragments = dict.fromkeys(range(n), 1 / n), Steps(), n
    for _ in range(n - 1):
        next_level: dict[Fragment, float] = {}
        for fragment, probability in level.items():
            candidates = _candidate_units(fragment, neighbors)
            for unit in candidates:
                steps[fragment, unit] = probability / len(candidates)
                larger = fragment | {unit}
                next_level[larger] = next_level.get(larger, 0.0) + probability / len(candidates)
        level = next_level
        num_fragments += len(level)
        if num_fragments > MAX_EXACT:
            return _sampled_steps(neighbors)
    return first, steps


def count_fragments(molecule: Molecule, max_atoms: int = MAX_ATOMS) -> int:
    """The number of fragments that the attribution of a molecule predicts."""
    _, steps = growth_steps(Fragments(molecule.encoded_smiles, max_atoms).neighbors)
    return len({before for before, _ in steps}) + 1


def _candidate_units(fragment: Fragment, neighbors: Sequence[Sequence[int]]) -> list[int]:
    """The units that can join a fragment: those bonded to it, or all others if there are none."""
    bonded = {v for u in fragment for v in neighbors[u]} - fragment
    return sorted(bonded) if bonded else [u for u in range(len(neighbors)) if u not in fragment]


def _sampled_steps(neighbors: Sequence[Sequence[int]]) -> tuple[dict[int, float], Steps]:
    n, rng = len(neighbors), np.random.default_rng(0)
    starts = np.concatenate([rng.permutation(n) for _ in range(1 + SAMPLED_ORDERS // n)])[:SAMPLED_ORDERS].tolist()
    weight = 1 / len(starts)
    first: dict[int, float] = {}
    steps = Steps()
    for start in starts:
        first[start] = first.get(start, 0.0) + weight
        fragment = frozenset({start})
        while len(fragment) < n:
            unit = int(rng.choice(_candidate_units(fragment, neighbors)))
            steps[fragment, unit] = steps.get((fragment, unit), 0.0) + weight
            fragment |= {unit}
    return first, steps


def _fragment_outputs(
    artifact: Artifact, fragments: Fragments, steps: Steps, output: int, known: dict[str, np.ndarray]
) -> dict[Fragment, float]:
    """The output of every fragment of the steps."""
    needed = {before for before, _ in steps} | {before | {unit} for before, unit in steps}
    needed = needed or {frozenset(range(len(fragments.units)))}  # a molecule of one unit
    by_size = sorted(needed, key=lambda fragment: (len(fragment), sorted(fragment)))
    smiles = [fragments.smiles(fragment) for fragment in by_size]
    known |= _outputs(artifact, [s for s in dict.fromkeys(smiles) if s and s not in known])
    found = {f: float(known[s][output]) if s else np.nan for f, s in zip(by_size, smiles, strict=True)}
    valid_units = [y for fragment, y in found.items() if len(fragment) == 1 and np.isfinite(y)]
    for fragment in by_size:
        if not np.isfinite(found[fragment]):
            smaller = [found[s] for u in fragment if (s := fragment - {u}) in found]
            found[fragment] = float(np.mean(smaller or valid_units or [found[by_size[-1]]]))
    return found


def _outputs(artifact: Artifact, smiles: Sequence[str]) -> dict[str, np.ndarray]:
    """All outputs for each SMILES, NaN for one that the model cannot read or predict."""
    model, scaler = artifact.model, artifact.descriptors
    read = model.read(smiles, artifact.read_options)
    pairs = [(s, m) for s, m in zip(smiles, read, strict=True) if not isinstance(m, SmilesError)]
    molecules = [m for _, m in pairs]
    z = None
    if scaler is not None:
        rows = [molecule_descriptors(m, scaler.computed) for m in molecules]
        z = scaler.scale(np.array(rows).reshape(len(rows), len(scaler.computed)))
    numbers = compute_outputs(model, molecules, descriptors=z, failures={})
    rejected = np.full(numbers.shape[1], np.nan)
    return dict.fromkeys(smiles, rejected) | {s: row for (s, _), row in zip(pairs, numbers, strict=True)}
