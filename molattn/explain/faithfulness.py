"""Scores of attribution methods: accuracy, where the true contributions of atoms are known, signs, and faithfulness."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.errors import SmilesError, UsageError
from molattn.explain.accuracy import attribution_accuracy, sign_agreement
from molattn.explain.attribute import available_attribution_methods, choose_attribution_method, explained_output
from molattn.explain.attributor import RANDOM, Attributor, check_finite, descriptors_of
from molattn.explain.estimates import MIN_COUNT, Estimate, bootstrap_weights, too_few
from molattn.explain.masking import deletion_outputs
from molattn.explain.measured_changes import (
    GROW,
    OWN_EDIT,
    OWN_EDITS,
    SWAP,
    Change,
    find_edits,
    score_edits,
    score_pairs,
)
from molattn.explain.stability import score_stability
from molattn.explain.terms import MoleculeOrBatch
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs
from molattn.models.random_states import seeded

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Fractions of the atoms that are deleted in a deletion curve, the largest attributions first."""

_RANDOM_ORDERS = 5
"""Random deletion orders per molecule."""


@dataclass(frozen=True)
class MethodScores:
    """The scores of one method on one target of one model: means over molecules.

    Attributes:
        kendall, pearson: tau-b and r between the attributions and the true contributions of the atoms of a molecule; 0
            if all attributions are equal. None without ground truth.
        auroc: AUROC of |attribution| for the important atoms, whose |true contribution| is above the mean of their
            molecule. None without ground truth.
        deletion_curve: the change of the prediction, in its unit, when the first 10, 20, ... 50% of the atoms are
            deleted, the largest |attribution| first.
        deletion_ratio: the mean of that curve divided by that of random orders: 1 is chance, and more is better. It
            ranks by |attribution| and sums |change|, so it does not measure signs.
        sign: the fraction of the atoms whose attribution has the sign of the true contribution, of atoms whose true
            contribution is above `MIN_EFFECT`. None for methods without signs, and without ground truth.
        measures: the measures that need no ground truth, with intervals and counts, by name. Where a method makes the
            same edit as the measure, there is no value:

            - "swap_sign", "swap_r": edits (F for Cl, N for CH, a CH2 more or less in a chain): the share whose
              direction the method predicts, and r with the model's own change; see `score_edits`.
            - "grow_sign", "grow_r": the same for CH3 or OH in place of hydrogen, which `fragment-shapley` does itself.
            - "pair_sign", "pair_r2": matched pairs with measured values; see `score_pairs`.
            - "deletion": `deletion_ratio` with its interval, for all but `occlusion`, which deletes atoms itself.
            - "spelling", "noise", "seed": the mean r with the values after a change; see `score_stability`.
    """

    kendall: float | None
    pearson: float | None
    auroc: float | None
    deletion_curve: tuple[float, ...] | None
    deletion_ratio: float | None
    sign: float | None = None
    measures: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Faithfulness:
    """The scores of all methods on one target of one model: accuracy if there is ground truth, and faithfulness.

    Attributes:
        target: the target.
        unit: unit of the curves.
        num_molecules: number of molecules.
        num_with_ground_truth: number of them whose true contributions are not all equal.
        methods: scores by name, including the baseline `RANDOM`.
        untrained: the same for a model with these settings and newly initialized weights; empty without ground truth.
    """

    target: str
    unit: str
    num_molecules: int
    num_with_ground_truth: int
    methods: Mapping[str, MethodScores]
    untrained: Mapping[str, MethodScores]


def measure_faithfulness(
    artifact: Artifact,
    molecules: Sequence[MoleculeGraph],
    target: str | None = None,
    *,
    true_contributions: Callable[[MoleculeGraph], np.ndarray] | None = None,
    methods: Sequence[str] = (),
    deletion: bool = True,
    max_edits: int = 0,
    edit_measures: Sequence[str] = (SWAP, GROW),
    pairs: Sequence[Change] | None = None,
    max_stability: int = 0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Faithfulness:
    """Measure the faithfulness of methods for one target of a model, on molecules that it was not trained on.

    Descriptors that the model computes remain those of the whole molecule when atoms are deleted.

    Args:
        target: see `explained_output`.
        true_contributions: the true contributions of the atoms of a molecule to the target, (n,), if known.
        methods: their names; empty for all that support the model.
        deletion: whether to compute deletion curves.
        max_edits: largest number of edits of each measure of edits; 0 to measure none.
        edit_measures: the measures of edits, "swap" and "grow".
        pairs: measured changes of matched pairs; None to measure none.
        max_stability: largest number of molecules for stability; 0 to measure none.
        seed: seed of the random orders, the samples, and the weights of the untrained model.
        progress: called with the number of finished steps and their total number: a molecule, or one method of a
            measure, is a step.

    Raises:
        UsageError: unknown method or target, one that the model does not support, or no molecules.
        SmilesError: a prediction or an attribution is not finite.
    """
    scaler = artifact.descriptors
    if scaler is not None and scaler.provided:
        raise UsageError("this model reads descriptor columns: faithfulness is measured only for models without them")
    if not molecules:
        raise UsageError("there are no molecules to measure attributions on")
    choose_attribution_method(artifact)
    model = artifact.model
    assert isinstance(model, GraphModel) and isinstance(model.config, GraphModelConfig)
    names = [choose_attribution_method(artifact, name) for name in methods] or available_attribution_methods(artifact)
    z = descriptors_of(artifact, molecules)
    failures: dict[int, str] = {}
    outputs = compute_outputs(artifact.model, molecules, descriptors=z, failures=failures)
    for i, reason in failures.items():
        raise SmilesError(molecules[i].smiles, reason)
    explained = [explained_output(artifact, target, row) for row in outputs]
    indices, scale = [e.output for e in explained], explained[0].std
    attributor = Attributor(artifact, names, seed)
    steps = len(attributor.all_names) * ((max_edits > 0) + (pairs is not None) + (max_stability > 0))
    total, done = len(molecules) * (2 if true_contributions is not None else 1) + steps, 0

    def report(number: int = 1) -> None:
        nonlocal done
        done += number
        if progress is not None:
            progress(done, total)

    trained, num_with_ground_truth = _score_methods(
        attributor, molecules, indices, true_contributions, deletion, scale, seed, report
    )
    measured: list[Mapping[str, Mapping[str, Estimate]]] = []
    if max_edits:
        changes = find_edits(artifact, molecules, indices, max_edits, seed, edit_measures)
        measured.append(score_edits(attributor, changes, report))
    if pairs is not None:
        measured.append(score_pairs(attributor, pairs, report))
    if max_stability:
        order = np.random.default_rng(seed).permutation(len(molecules))[:max_stability].tolist()
        measured.append(score_stability(attributor, [(molecules[i], indices[i]) for i in order], seed, report))
    for part in measured:
        trained = {name: replace(m, measures={**m.measures, **part[name]}) for name, m in trained.items()}
    untrained: Mapping[str, MethodScores] = {}
    if true_contributions is not None:
        with seeded(seed):
            k = model.num_descriptors
            untrained_model = GraphModel(model.config, model.head.out_features, num_descriptors=k)
        untrained_model = untrained_model.eval().requires_grad_(False).to(model.head.weight.device)
        untrained, _ = _score_methods(
            attributor.with_model(untrained_model), molecules, indices, true_contributions, False, scale, seed, report
        )
    return Faithfulness(
        target or artifact.targets[0], explained[0].unit, len(molecules), num_with_ground_truth, trained, untrained
    )


def _score_methods(
    attributor: Attributor,
    molecules: Sequence[MoleculeGraph],
    outputs: Sequence[int],
    true_contributions: Callable[[MoleculeGraph], np.ndarray] | None,
    deletion: bool,
    scale: float,
    seed: int,
    report: Callable[[int], None],
) -> tuple[dict[str, MethodScores], int]:
    """The scores of the methods, and the number of molecules whose true contributions differ."""
    names, model = attributor.all_names, attributor.artifact.model
    assert isinstance(model, GraphModel)
    rng = np.random.default_rng(seed)
    accuracies: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    signs: dict[str, list[float]] = {name: [] for name in names}
    curves: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for molecule, output in zip(molecules, outputs, strict=True):
        batch = attributor.batch(molecule)
        attributions = {name: attributor.terms(name, molecule, output, batch) for name in names}
        values = {name: found.values for name, found in attributions.items()}
        truth = None if true_contributions is None else true_contributions(molecule)
        if truth is not None and np.ptp(np.round(truth, 4)) > 0:
            for name, found in attributions.items():
                accuracies[name].append(attribution_accuracy(found.values, truth))
                # Attention weights have no sign; the random numbers of the baseline have one.
                share = sign_agreement(found.values, truth) if found.has_unit or name == RANDOM else None
                signs[name] += [] if share is None else [share]
        if deletion:
            curves_of_molecule = _deletion_curves(model, batch, molecule.num_atoms, output, values, rng)
            check_finite(molecule, curves_of_molecule, "predictions without the top atoms")
            for name, curve in curves_of_molecule.items():
                curves[name].append(curve * scale)
        report(1)
    chance = np.mean(curves[RANDOM]) if deletion else 0.0
    num_with_ground_truth = len(accuracies[RANDOM])
    scores = {}
    for name in names:
        kendall, pearson, auroc = (
            np.mean(accuracies[name], axis=0).tolist() if num_with_ground_truth else (None, None, None)
        )
        curve = np.mean(curves[name], axis=0) if deletion else None
        scores[name] = MethodScores(
            kendall,
            pearson,
            auroc,
            None if curve is None else tuple(curve.tolist()),
            None if curve is None or chance == 0 else float(curve.mean() / chance),
            float(np.mean(signs[name])) if signs[name] else None,
            {"deletion": _deletion_ratio(name, curves, seed)} if deletion and chance else {},
        )
    return scores, num_with_ground_truth


def _deletion_ratio(name: str, curves: Mapping[str, Sequence[np.ndarray]], seed: int) -> Estimate:
    """The mean change of the curves of a method over that of random orders, with its interval over molecules."""
    changes, chance = (np.mean(curves[key], axis=1) for key in (name, RANDOM))
    if name in OWN_EDITS["deletion"]:
        return Estimate(None, count=len(changes), why=OWN_EDIT)
    if len(changes) < MIN_COUNT:
        return too_few(len(changes), "molecules")
    w = bootstrap_weights(np.arange(len(changes))[:, None], seed)
    random_means = w @ chance
    low, high = np.quantile((w @ changes)[random_means > 0] / random_means[random_means > 0], [0.025, 0.975]).tolist()
    return Estimate(float(changes.mean() / chance.mean()), low, high, len(changes))


def _deletion_curves(
    model: GraphModel,
    molecule: MoleculeOrBatch,
    n: int,
    output: int,
    values: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """For each method, the changes of the output, (len(FRACTIONS),), when the top fractions of n atoms are deleted."""
    counts = [0, *(max(1, round(share * n)) for share in FRACTIONS)]
    # Atoms with equal values in random order, so that the order of the SMILES has no effect.
    shuffles = [rng.permutation(n) for _ in range(_RANDOM_ORDERS)]
    orders = [
        shuffles[0][np.argsort(-np.abs(v[shuffles[0]]), kind="stable")] for name, v in values.items() if name != RANDOM
    ]
    outputs = deletion_outputs(model, molecule, [*orders, *shuffles], counts)[:, :, output]
    changes = np.abs(outputs[:, 1:] - outputs[:, :1])
    by_method = dict(zip((name for name in values if name != RANDOM), changes, strict=False))
    return {**by_method, RANDOM: changes[-_RANDOM_ORDERS:].mean(0)}
