"""The page of the variants of a molecule: with the attributions and the received attention of each atom."""

from collections.abc import Sequence

import numpy as np

from molattn.errors import SmilesError
from molattn.explain import AttentionMap, Attribution
from molattn.explain.methods import unsupported_model_reason
from molattn.inference.explainer import Explainer
from molattn.inference.trade_offs import Property, TradeOffs
from molattn.viewer.web.variants import Details, page_of_variants

NUM_EXPLAINED = 60
"""Of how many listed variants the attributions are computed: those of a molecule of 41 atoms take 0.3 s."""

Known = dict[str, np.ndarray]


def variant_page(found: TradeOffs, properties: Sequence[Property], size: int) -> str:
    """The page of `size` variants, see `TradeOffs.listed`: an HTML document that needs no network and no other file.

    The attributions are those of the parent, of the first `NUM_EXPLAINED` variants and of the best one of each atom.
    """
    listed = found.listed(size)
    best, _ = found.rows_of_atoms()
    smiles = [found.results[0].smiles, *(found.rows[k][0].variant.smiles for k in listed)]
    explained = [True, *(k in best or i < NUM_EXPLAINED for i, k in enumerate(listed))]
    # Properties of one model have the same fragments.
    known: dict[int, Known] = {id(p.predictor): {} for p in properties}
    details = [_details(p.predictor, p.options.target, smiles, explained, known[id(p.predictor)]) for p in properties]
    return page_of_variants(found, listed, details)


def _details(
    predictor: object, target: str | None, texts: Sequence[str], explained: Sequence[bool], known: Known
) -> list[Details]:
    """The attribution and the received attention of the parent and of each variant, where the model has them.

    Of an ensemble they are those of its first model.
    """
    if not isinstance(predictor, Explainer):
        return [Details()] * len(texts)
    # One map in memory at a time: the maps of 200 large molecules do not fit.
    received = [_received(text, found) for text, found in zip(texts, predictor.attentions(texts), strict=True)]
    chosen = [text for text, wanted in zip(texts, explained, strict=True) if wanted]
    attributions = dict(zip(chosen, _attributions(predictor, target, chosen, known), strict=True))
    details = []
    for text, attention, wanted in zip(texts, received, explained, strict=True):
        found = attributions.get(text)
        # The atoms of a molecule that the model standardized are not those of the page.
        if isinstance(found, Attribution) and found.smiles == text:
            rest = (found.constant or 0.0) + sum(found.other_terms.values()) if found.adds_up else None
            details.append(Details(found.values, attention, rest, found.part, found.method, found.faithfulness))
        else:
            details.append(Details(None, attention, computed=wanted))
    return details


def _received(text: str, found: AttentionMap | SmilesError) -> np.ndarray | None:
    """The attention that each atom receives; None for tokens, and for a molecule that the model standardized."""
    if isinstance(found, SmilesError) or found.position_type != "atoms" or found.smiles != text:
        return None
    return np.asarray(found.matrix(found.num_layers - 1, "mean"), dtype=np.float64).mean(0)


def _attributions(
    predictor: Explainer, target: str | None, texts: Sequence[str], known: Known
) -> Sequence[Attribution | SmilesError | None]:
    """The attribution of each molecule; None of a model that has none."""
    if unsupported_model_reason(predictor.model):
        return [None] * len(texts)
    return list(predictor._attribution_rows(texts, None, target, known=known))
