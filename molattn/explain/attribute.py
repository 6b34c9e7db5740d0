"""Attribution for a trained model and a molecule: selection of the explained output, and conversion to its unit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.chem.morgan import MORGAN_DESCRIPTORS
from molattn.data.store.batches import MoleculeBatch
from molattn.data.tables.units import find_without_unit
from molattn.errors import SmilesError, UsageError, unknown_choice
from molattn.explain.attention_map import NOT_MEASURED
from molattn.explain.attribution import Attribution
from molattn.explain.fragment_shapley import FRAGMENT_SHAPLEY, FRAGMENT_SHAPLEY_TITLE, fragment_shapley
from molattn.explain.fragment_shapley import unsupported_reason as fragments_unsupported_reason
from molattn.explain.methods import METHODS, available_methods, choose_method, unsupported_model_reason
from molattn.explain.terms import Terms
from molattn.explain.tree_shap import TREE_SHAP, TREE_SHAP_TITLE, tree_shap
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.batching import NOT_FINITE
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import Binary, Multiclass

MORGAN_TERM = "Morgan counts"
"""The name of the term of all columns of the Morgan fingerprint, which have no meaning one by one."""


@dataclass(frozen=True)
class ExplainedOutput:
    """The output of a model that an attribution explains.

    y = mean + std * output,   y the transformed target if it has a transform, log10(nM) and not nM

    Attributes:
        target: its name.
        output: its index among the outputs of the model.
        unit: unit of y.
        mean, std: the scale of y; 0 and 1 for log-odds and scores (logits) of classes.
        quantity: the name of y if it is the log-odds or score (logit) of a class; empty for regression.
        class_of: the indices of the target and of the class that y is the log-odds or score of; None for regression.
    """

    target: str
    output: int
    unit: str
    mean: float = 0.0
    std: float = 1.0
    quantity: str = ""
    class_of: tuple[int, int] | None = None


def explained_output(artifact: Artifact, target: str | None, outputs: np.ndarray) -> ExplainedOutput:
    """The output to explain for `target`, given the outputs of the molecule, (outputs,).

    For regression it is in the unit of the target, or of its transform if it has one; for a binary target the log-odds
    of its positive class. For several classes it is the score, before the softmax (logit), of one class: the class of a
    prediction column NAME_prob_CLASS, or the predicted class if `target` is the name of the target.

    Raises:
        UsageError: unknown target, several targets and none is named, or a model that predicts evidence.
    """
    task, targets = artifact.task, artifact.targets
    if not task.loss_function.is_explainable:
        raise UsageError(
            f"a model with the loss {task.loss} predicts evidence, and attributions explain log-odds or scores: "
            "train with bce or cross-entropy"
        )
    columns = task.distribution_columns(targets) if isinstance(task, Multiclass) else []
    several = len(targets) > 1
    if target is None and several:
        raise UsageError(f"choose the target to explain, --target or target=: {', '.join((*targets, *columns))}")
    name = targets[0] if target is None else target
    if name in columns:
        return _class_score(artifact, columns, columns.index(name))
    name = find_without_unit(targets, name)
    if name not in targets:
        raise UsageError(unknown_choice("target", name, (*targets, *columns)))
    t = targets.index(name)
    if isinstance(task, Multiclass):
        class_outputs = [k for k, target_index in enumerate(task.target_of_output(len(targets))) if target_index == t]
        predicted = class_outputs[int(np.argmax(outputs[class_outputs]))]
        return _class_score(artifact, columns, predicted)
    if isinstance(task, Binary):
        positive = name
        if task.classes:
            positive = f"{task.classes[t][1]} of {name}" if several else task.classes[t][1]
        return ExplainedOutput(name, t, "log-odds", quantity=f"log-odds of {positive}", class_of=(t, 1))
    scaler = artifact.scaler
    f = scaler.transform_of(t)
    unit = artifact.units[t] if f is None else f.transformed_unit(artifact.units[t])
    return ExplainedOutput(name, t, unit, scaler.mean[t], scaler.std[t])


def _class_score(artifact: Artifact, columns: Sequence[str], output: int) -> ExplainedOutput:
    """The score of one class of several, by the index of its output."""
    target_of_output = artifact.task.target_of_output(len(artifact.targets))
    t = target_of_output[output]
    c = output - target_of_output.index(t)
    quantity = f"score of class {artifact.task.class_names(t)[c]} of {artifact.targets[t]}"
    return ExplainedOutput(columns[output], output, "score", quantity=quantity, class_of=(t, c))


def class_probability(artifact: Artifact, explained: ExplainedOutput, outputs: np.ndarray) -> dict[str, float | None]:
    """`probability` and `calibrated_probability` of an `Attribution`, from the outputs of its molecule, (outputs,)."""
    if explained.class_of is None:
        return {"probability": None, "calibrated_probability": None}
    t, c = explained.class_of
    decoded = artifact.task.decode(outputs[None], artifact.scaler)
    probability, calibrated = (
        float(artifact.task.probabilities(p, t)[0, c]) for p in (decoded, artifact.apply_calibration(decoded))
    )
    return {"probability": probability, "calibrated_probability": None if calibrated == probability else calibrated}


def target_index(artifact: Artifact, name: str) -> int:
    """The index of the target that `Attribution.target` names, by itself or by the column of one of its classes."""
    if name in artifact.targets:
        return artifact.targets.index(name)
    output = artifact.task.distribution_columns(artifact.targets).index(name)
    return artifact.task.target_of_output(len(artifact.targets))[output]


def available_attribution_methods(artifact: Artifact) -> list[str]:
    """The methods that explain the attention model of an artifact, its default first; none if there are none."""
    names = available_methods(artifact.model)
    return [FRAGMENT_SHAPLEY, *names] if names and not fragments_unsupported_reason(artifact) else names


def choose_attribution_method(artifact: Artifact, name: str | None = None) -> str:
    """`name`, if that method supports the artifact; for None its default.

    Raises:
        UsageError: unknown method, or one that does not support the model, with the reason.
    """
    if reason := unsupported_model_reason(artifact.model):
        raise UsageError(f"no attributions: {reason}")
    if name is None:
        return available_attribution_methods(artifact)[0]
    if name == TREE_SHAP:
        reason = "" if artifact.trees else "it applies only to models with boosted trees: train with --with-trees"
    elif name == FRAGMENT_SHAPLEY:
        reason = fragments_unsupported_reason(artifact)
    elif name in METHODS:
        return choose_method(artifact.model, name)
    else:
        raise UsageError(unknown_choice("method", name, (FRAGMENT_SHAPLEY, *METHODS, TREE_SHAP)))
    if reason:
        raise UsageError(f"method {name}: {reason}")
    return name


def method_title(name: str) -> str:
    """What the values of a method are, in a few words."""
    titles = {TREE_SHAP: TREE_SHAP_TITLE, FRAGMENT_SHAPLEY: FRAGMENT_SHAPLEY_TITLE}
    return titles[name] if name in titles else METHODS[name].title


def attribute(
    artifact: Artifact,
    molecule: Molecule,
    method: str | None = None,
    target: str | None = None,
    faithfulness: str = NOT_MEASURED,
    descriptors: np.ndarray | None = None,
    known: dict[str, np.ndarray] | None = None,
) -> Attribution:
    """How much each atom of a molecule contributes to one prediction of a model.

    Args:
        method: "fragment-shapley" or a key of `METHODS`, which explain the attention model, or "tree-shap", which
            explains the boosted trees blended with it; None for the default of the model.
        target: see `explained_output`.
        faithfulness: how faithful the method was measured to be for this model, in one line.
        descriptors: (1, k), standardized; None for a model without descriptors.
        known: outputs of fragments, see `fragment_shapley`.

    Raises:
        UsageError: unknown method or target, or a method that does not support this model.
        SmilesError: a prediction or an attribution is not finite.
    """
    model = artifact.model
    name = choose_attribution_method(artifact, method)
    assert isinstance(model, GraphModel) and isinstance(molecule, MoleculeGraph)
    failures: dict[int, str] = {}
    outputs = compute_outputs(model, [molecule], descriptors=descriptors, failures=failures)[0]
    if failures:
        raise SmilesError(molecule.smiles, failures[0])
    explained = explained_output(artifact, target, outputs)
    if name == TREE_SHAP:
        found = _attribute_trees(artifact, molecule, explained, faithfulness)
    else:
        if name == FRAGMENT_SHAPLEY:
            terms = fragment_shapley(artifact, molecule, explained.output, known)
        else:
            batch = model.collate([molecule], None, descriptors)
            assert isinstance(batch, MoleculeBatch)
            terms = METHODS[name].compute(model, batch, explained.output)
        output = float(outputs[explained.output])
        found = attribution_of(artifact, molecule, terms, name, explained, output, faithfulness)
        found = replace(found, **class_probability(artifact, explained, outputs))
    numbers = [*found.values, *found.other_terms.values(), found.prediction, found.constant or 0.0]
    if not np.isfinite(numbers).all():
        raise SmilesError(molecule.smiles, NOT_FINITE)
    return found


def _attribute_trees(
    artifact: Artifact, molecule: MoleculeGraph, explained: ExplainedOutput, faithfulness: str
) -> Attribution:
    """The contributions of atoms to the prediction of the boosted trees."""
    blended, task = artifact.trees, artifact.task
    assert blended is not None
    t, c = explained.class_of or (explained.output, None)
    terms = tree_shap(blended, molecule, t, c)
    if isinstance(task, Multiclass) and c is not None and blended.trees[t].outputs == 1:
        name = f"log-odds of {task.class_names(t)[c]} of {artifact.targets[t]}"
        explained = replace(explained, unit="log-odds", quantity=name)
    output = (terms.constant or 0.0) + float(terms.values.sum()) + sum(terms.other_terms.values())
    found = attribution_of(artifact, molecule, terms, TREE_SHAP, explained, output, faithfulness)
    if explained.class_of is None:
        return found
    predictions = blended.predict(task, artifact.scaler, blended.features([molecule]))
    return replace(found, probability=float(task.probabilities(predictions, t)[0, c]))


def attribution_of(
    artifact: Artifact,
    molecule: MoleculeGraph,
    terms: Terms,
    method: str,
    explained: ExplainedOutput,
    output: float,
    faithfulness: str = NOT_MEASURED,
) -> Attribution:
    """`terms` in the unit of the explained target."""
    scale = explained.std if terms.has_unit else 1.0
    descriptor_terms = _descriptor_terms(artifact.descriptors, terms.descriptors)
    return Attribution(
        smiles=molecule.encoded_smiles,
        symbols=molecule.labels,
        values=np.asarray(terms.values, dtype=np.float64) * scale,
        method=method,
        target=explained.target,
        prediction=explained.mean + explained.std * output,
        unit=explained.unit,
        constant=None if terms.constant is None else explained.mean + explained.std * terms.constant,
        other_terms={label: value * scale for label, value in {**terms.other_terms, **descriptor_terms}.items()},
        adds_up=terms.adds_up,
        add_hs=artifact.read_options.add_hs,
        faithfulness=faithfulness,
        has_unit=terms.has_unit,
        quantity=explained.quantity,
    )


def _descriptor_terms(scaler: DescriptorScaler | None, terms: np.ndarray | None) -> dict[str, float]:
    """The term of each descriptor by its name, and one for all columns of the Morgan fingerprint."""
    found: dict[str, float] = {}
    if scaler is None or terms is None:
        return found
    for i, (name, term) in enumerate(zip(scaler.names, terms.tolist(), strict=True)):
        is_column = i >= len(scaler.provided) and name in MORGAN_DESCRIPTORS
        label = MORGAN_TERM if is_column else name
        found[label] = found.get(label, 0.0) + term
    return found
