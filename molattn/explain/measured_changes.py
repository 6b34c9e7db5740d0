"""How well attributions predict changes: of the prediction under an edit, and of measured values in matched pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from molattn.chem import MoleculeGraph, SmallEdit, morgan_bits, small_edits
from molattn.chem.single_edits import CHAIN, HALOGEN, HYDROXYL, METHYL, RING_NITROGEN
from molattn.explain.attributor import RANDOM, Attributor, descriptors_of, outputs_of, read_molecules
from molattn.explain.estimates import Estimate, estimate_correlation, estimate_mean, squared
from molattn.explain.fragment_shapley import FRAGMENT_SHAPLEY
from molattn.models.artifact import Artifact

SWAP, GROW = "swap", "grow"
EDITS = {SWAP: (HALOGEN, RING_NITROGEN, CHAIN), GROW: (METHYL, HYDROXYL)}
"""The kinds of edits of each measure, see `molattn.chem.small_edits`."""
OWN_EDITS = {GROW: (FRAGMENT_SHAPLEY,), "deletion": ("occlusion",)}
"""The methods that make the edits of a measure themselves, for which the measure is not computed."""
OWN_EDIT, NO_SIGN = "its own edit", "no sign"
"""Why a measure has no value for a method."""
MIN_CHANGE = 0.05
"""Smallest change of the prediction whose sign counts, in standard deviations of the target, or of the log-odds."""
MIN_MEASURED = 0.1
"""Smallest measured change whose sign counts, in standard deviations of the target in the pairs' molecules."""

Report = Callable[[int], None]


@dataclass(frozen=True)
class Change:
    """One molecule changed into another.

    Attributes:
        first, second: the molecules.
        removed: the atoms of `first` that change.
        added: the atoms of `second` that changed.
        output: the index of the explained output.
        change: the change of the prediction or of the measured value, second minus first.
        units: numbers of the molecules that the change is from, see `bootstrap_weights`.
    """

    first: MoleculeGraph
    second: MoleculeGraph
    removed: tuple[int, ...]
    added: tuple[int, ...]
    output: int
    change: float
    units: tuple[int, ...]


def find_edits(
    artifact: Artifact,
    molecules: Sequence[MoleculeGraph],
    outputs: Sequence[int],
    max_edits: int,
    seed: int,
    measures: Sequence[str] = (SWAP, GROW),
) -> dict[str, list[Change]]:
    """Real edits of molecules, at most one of a kind of each, with the model's own change, by measure.

    Edited molecules that the model's applicability domain does not include are left out.

    Args:
        molecules: n molecules.
        outputs: the explained output of each.
        max_edits: largest number of edits of a measure, sampled at random.
        seed: of the sample.
        measures: keys of `EDITS`.
    """
    kinds = [kind for measure in measures for kind in EDITS[measure]]
    order = np.random.default_rng(seed).permutation(len(molecules))
    edits: list[tuple[int, SmallEdit]] = []
    num_found = dict.fromkeys(measures, 0)
    for i in order.tolist():
        missing = [kind for measure in measures for kind in EDITS[measure] if num_found[measure] < 2 * max_edits]
        if not missing:
            break
        found = small_edits(molecules[i].encoded_smiles, kinds=missing, max_per_kind=1, seed=seed + i)
        edits += [(i, edit) for edit in found]
        for measure in measures:
            num_found[measure] += sum(edit.kind in EDITS[measure] for edit in found)
    read = read_molecules(artifact, [edit.smiles for _, edit in edits])
    usable = [(i, edit, m) for (i, edit), m in zip(edits, read, strict=True) if m is not None]
    if not usable:
        return {measure: [] for measure in measures}
    edited = [m for _, _, m in usable]
    after, before = outputs_of(artifact, edited), outputs_of(artifact, [molecules[i] for i, _, _ in usable])
    inside = in_domain(artifact, edited)
    changes: dict[str, list[Change]] = {measure: [] for measure in measures}
    measure_of = {kind: measure for measure in measures for kind in EDITS[measure]}
    for k, (i, edit, m) in enumerate(usable):
        change = float(after[k, outputs[i]] - before[k, outputs[i]])
        selected = changes[measure_of[edit.kind]]
        if edit.kind in kinds and inside[k] and np.isfinite(change) and len(selected) < max_edits:
            selected.append(Change(molecules[i], m, edit.removed, edit.added, outputs[i], change, (i,)))
    return changes


def in_domain(artifact: Artifact, molecules: Sequence[MoleculeGraph]) -> np.ndarray:
    """Whether each molecule is in the applicability domain of the model, (n,); all are if it has none."""
    if artifact.domain is None:
        return np.ones(len(molecules), dtype=bool)
    bits = morgan_bits([m.smiles for m in molecules], max_atoms=artifact.read_options.max_atoms)
    vectors = artifact.embed(molecules, descriptors_of(artifact, molecules), {})
    flags = artifact.domain.flags(artifact.domain.distances(vectors), artifact.domain.similarities(bits))
    return np.array([flag == "no" for flag in flags])


def predicted_changes(attributor: Attributor, name: str, changes: Sequence[Change]) -> np.ndarray:
    """What a method predicts: the sum of its values on what was added, minus that on what was removed, (p,)."""
    predicted = np.zeros(len(changes))
    for k, c in enumerate(changes):
        for molecule, atoms, sign in ((c.first, c.removed, -1), (c.second, c.added, 1)):
            if atoms:
                predicted[k] += sign * attributor.terms(name, molecule, c.output).values[list(atoms)].sum()
    return predicted


def score_edits(
    attributor: Attributor, changes: Mapping[str, Sequence[Change]], report: Report
) -> dict[str, dict[str, Estimate]]:
    """By method, "swap_sign", "swap_r" and so on for each measure; without a value for the methods in `OWN_EDITS`."""
    found: dict[str, dict[str, Estimate]] = {}
    for name in attributor.all_names:
        found[name] = {}
        for measure, edits in changes.items():
            if name in OWN_EDITS.get(measure, ()):
                missing = Estimate(None, count=len(edits), why=OWN_EDIT)
                found[name] |= {f"{measure}_sign": missing, f"{measure}_r": missing}
                continue
            predicted = predicted_changes(attributor, name, edits)
            model_change = np.array([c.change for c in edits])
            sign, r = _agreement(attributor, name, predicted, model_change, edits, MIN_CHANGE, "edits")
            found[name] |= {f"{measure}_sign": sign, f"{measure}_r": r}
        report(1)
    return found


def score_pairs(attributor: Attributor, pairs: Sequence[Change], report: Report) -> dict[str, dict[str, Estimate]]:
    """By method, "pair_sign" and "pair_r2": agreement with the measured changes of matched pairs."""
    measured = np.array([c.change for c in pairs])
    min_change = MIN_MEASURED * float(measured.std()) if len(pairs) else 0.0
    found = {}
    for name in attributor.all_names:
        # Attributions are slow: they are not computed if there is nothing to compare them with.
        constant = len(pairs) < 2 or measured.std() == 0
        predicted = np.zeros(len(pairs)) if constant else predicted_changes(attributor, name, pairs)
        sign, r = _agreement(attributor, name, predicted, measured, pairs, min_change, "pairs")
        found[name] = {"pair_sign": sign, "pair_r2": squared(r)}
        report(1)
    return found


def _agreement(
    attributor: Attributor,
    name: str,
    predicted: np.ndarray,
    change: np.ndarray,
    changes: Sequence[Change],
    min_change: float,
    what: str,
) -> tuple[Estimate, Estimate]:
    """The share of changes above `min_change` whose sign is predicted, and r of all."""
    units = np.array([c.units for c in changes], dtype=int).reshape(
        len(changes), len(changes[0].units) if changes else 1
    )
    r = estimate_correlation(predicted, change, units, what)
    if not _has_signs(attributor, name, changes):
        return Estimate(None, count=len(changes), why=NO_SIGN), r
    large = np.abs(change) > min_change
    right = np.sign(predicted[large]) == np.sign(change[large])
    return estimate_mean(right.astype(float), units[large], f"{what} that change enough"), r


def _has_signs(attributor: Attributor, name: str, changes: Sequence[Change]) -> bool:
    """Whether the values of a method have signs, as random numbers have and attention weights do not."""
    if name == RANDOM or not changes:
        return True
    return attributor.terms(name, changes[0].first, changes[0].output).has_unit
