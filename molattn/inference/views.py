"""The attributions by all methods for the interactive page of molecules, in addition to the attention maps."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from molattn.errors import SmilesError, UsageError, describe_failures
from molattn.explain import Attribution
from molattn.explain.attribute import available_attribution_methods
from molattn.explain.methods import unsupported_model_reason
from molattn.explain.tree_shap import TREE_SHAP

if TYPE_CHECKING:
    from molattn.inference.explainer import Explainer


def page_attributions(
    predictor: "Explainer", smiles: Sequence[str], warn: Callable[[str], None], methods: Sequence[str] = ()
) -> list[Attribution]:
    """The attributions of molecules for each target, by each method; empty for a model that has none.

    Args:
        predictor: the model.
        smiles: the molecules.
        warn: called with the reason if there are none, or not for all molecules; not for a model of tokens or of
            atoms, which never has any.
        methods: of attribution, in the order of the page; empty for all that support the model, its default first.

    Raises:
        UsageError: a method of `methods` that there is not, or that does not support the model.
    """
    if not methods and unsupported_model_reason(predictor.model):
        return []
    artifact = predictor._artifact
    names = methods or [*available_attribution_methods(artifact), *([TREE_SHAP] if artifact.trees else [])]
    found: list[Attribution] = []
    failed: dict[str, str] = {}
    try:
        for target in predictor.targets:
            for name in names:
                for text, result in zip(smiles, predictor.attribution_rows(smiles, name, target), strict=True):
                    if isinstance(result, SmilesError):
                        failed.setdefault(text, str(result))
                    else:
                        found.append(result)
    except UsageError as error:
        if methods:
            raise
        warn(f"the page has no attributions: {error}")
        return []
    if failed:
        first = next(iter(failed.values()))
        warn(describe_failures(len(failed), len(smiles), "attributions are missing", first))
    return found


def page_classes(predictor: "Explainer") -> dict[str, tuple[str, ...]]:
    """The names of the classes of each target, for the page; empty for a model of numbers or of atoms."""
    task = predictor.task
    if task.kind == "regression" or task.atom_level:
        return {}
    return {target: tuple(task.class_names(t)) for t, target in enumerate(predictor.targets)}
