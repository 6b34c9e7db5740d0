"""Scores of attribution methods: accuracy, where the true contributions of atoms are known, signs, and faithfulness."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import collate
from molattn.errors import SmilesError, UsageError
from molattn.explain.accuracy import attribution_accuracy, sign_agreement
from molattn.explain.attribute import available_attribution_methods, choose_attribution_method, explained_output
from molattn.explain.fragment_shapley import FRAGMENT_SHAPLEY, fragment_shapley
from molattn.explain.masking import deletion_outputs, occlusion
from molattn.explain.methods import METHODS, random_attributions
from molattn.explain.terms import MoleculeOrBatch, Terms
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.descriptor_stream import molecule_descriptors
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs
from molattn.models.random_states import seeded

OCCLUSION = "occlusion"

RANDOM = "random"
"""The name of the random baseline among the methods."""

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
        sign: the fraction of the atoms whose attribution has the sign of the true contribution; without ground truth,
            that of the change of the prediction, f(molecule) - f(molecule without the atom), which is 1 for occlusion
            by definition. Of atoms whose effect is above `MIN_EFFECT`. None for methods without signs.
    """

    kendall: float | None
    pearson: float | None
    auroc: float | None
    deletion_curve: tuple[float, ...] | None
    deletion_ratio: float | None
    sign: float | None = None


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
        seed: seed of the random orders and of the weights of the untrained model.
        progress: called with the number of finished molecules and their total number.

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
    z = (
        None
        if scaler is None
        else scaler.scale(np.array([molecule_descriptors(m, scaler.computed) for m in molecules]))
    )
    failures: dict[int, str] = {}
    outputs = compute_outputs(artifact.model, molecules, descriptors=z, failures=failures)
    for i, reason in failures.items():
        raise SmilesError(molecules[i].smiles, reason)
    batches = [collate([m], None, None if z is None else z[i : i + 1]) for i, m in enumerate(molecules)]
    explained = [explained_output(artifact, target, row) for row in outputs]
    indices, scale = [e.output for e in explained], explained[0].std
    total = len(molecules) * (2 if true_contributions is not None else 1)
    report = progress or (lambda done, total: None)  # noqa: ARG005
    trained, num_with_ground_truth = _score_methods(
        artifact,
        molecules,
        batches,
        indices,
        names,
        true_contributions,
        deletion,
        scale,
        seed,
        lambda done: report(done, total),
    )
    untrained: Mapping[str, MethodScores] = {}
    if true_contributions is not None:
        with seeded(seed):
            k = model.num_descriptors
            fresh = GraphModel(model.config, model.head.out_features, num_descriptors=k).eval().requires_grad_(False)
        fresh = fresh.to(model.head.weight.device)
        untrained, _ = _score_methods(
            replace(artifact, model=fresh, other_models=()),
            molecules,
            batches,
            indices,
            names,
            true_contributions,
            False,
            scale,
            seed,
            lambda done: report(len(molecules) + done, total),
        )
    return Faithfulness(
        target or artifact.targets[0], explained[0].unit, len(molecules), num_with_ground_truth, trained, untrained
    )


def _methods(
    artifact: Artifact, names: Sequence[str], seed: int
) -> dict[str, Callable[[MoleculeGraph, MoleculeOrBatch, int], Terms]]:
    """The methods and the baseline: functions of a molecule, a batch of it, and the index of an output."""
    model, random = artifact.model, random_attributions(seed)
    assert isinstance(model, GraphModel)
    functions: dict[str, Callable[[MoleculeGraph, MoleculeOrBatch, int], Terms]] = {}
    for name in names:
        if name == FRAGMENT_SHAPLEY:
            functions[name] = lambda molecule, _, output: fragment_shapley(artifact, molecule, output)
        else:
            functions[name] = lambda _, batch, output, compute=METHODS[name].compute: compute(model, batch, output)
    return functions | {RANDOM: lambda _, batch, output: random(model, batch, output)}


def _score_methods(
    artifact: Artifact,
    molecules: Sequence[MoleculeGraph],
    batches: Sequence[MoleculeOrBatch],
    outputs: Sequence[int],
    names: Sequence[str],
    true_contributions: Callable[[MoleculeGraph], np.ndarray] | None,
    deletion: bool,
    scale: float,
    seed: int,
    report: Callable[[int], None],
) -> tuple[dict[str, MethodScores], int]:
    """The scores of the methods, and the number of molecules whose true contributions differ."""
    functions, model = _methods(artifact, names, seed), artifact.model
    assert isinstance(model, GraphModel)
    rng = np.random.default_rng(seed)
    accuracies: dict[str, list[tuple[float, float, float]]] = {name: [] for name in functions}
    signs: dict[str, list[float]] = {name: [] for name in functions}
    curves: dict[str, list[np.ndarray]] = {name: [] for name in functions}
    for done, (molecule, batch, output) in enumerate(zip(molecules, batches, outputs, strict=True)):
        attributions = {name: function(molecule, batch, output) for name, function in functions.items()}
        values = {name: found.values for name, found in attributions.items()}
        _check_finite(molecule, values, "attributions")
        effects = _effects(model, molecule, batch, output, values, true_contributions)
        if effects is not None:
            for name, found in attributions.items():
                if true_contributions is not None:
                    accuracies[name].append(attribution_accuracy(found.values, effects))
                # Attention weights have no sign; the random numbers of the baseline have one.
                share = sign_agreement(found.values, effects) if found.has_unit or name == RANDOM else None
                signs[name] += [] if share is None else [share]
        if deletion:
            curves_of_molecule = _deletion_curves(model, batch, molecule.num_atoms, output, values, rng)
            _check_finite(molecule, curves_of_molecule, "predictions without the top atoms")
            for name, curve in curves_of_molecule.items():
                curves[name].append(curve * scale)
        report(done + 1)
    chance = np.mean(curves[RANDOM]) if deletion else 0.0
    num_with_ground_truth = len(accuracies[RANDOM])
    scores = {}
    for name in functions:
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
        )
    return scores, num_with_ground_truth


def _effects(
    model: GraphModel,
    molecule: MoleculeGraph,
    batch: MoleculeOrBatch,
    output: int,
    values: Mapping[str, np.ndarray],
    true_contributions: Callable[[MoleculeGraph], np.ndarray] | None,
) -> np.ndarray | None:
    """The true contributions of the atoms, None if they are all equal; or else the changes of the output without them.

    `values` are those of the methods, the changes among them if occlusion is.
    """
    if true_contributions is not None:
        effects = true_contributions(molecule)
        return effects if np.ptp(np.round(effects, 4)) > 0 else None
    effects = values[OCCLUSION] if OCCLUSION in values else occlusion(model, batch, output).values
    _check_finite(molecule, {OCCLUSION: effects}, "attributions")
    return effects


def _check_finite(molecule: MoleculeGraph, values: Mapping[str, np.ndarray], what: str) -> None:
    """Raise SmilesError if there is a number that is not finite: the mean over molecules would be none either."""
    for name, numbers in values.items():
        if not np.isfinite(numbers).all():
            raise SmilesError(molecule.smiles, f"its {what} by the method {name} are not finite: measure other methods")


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
