"""The page of the variants of a molecule: what each atom contributes, and what it gets of the attention, beside it."""

from collections.abc import Sequence

import numpy as np

from molattn.errors import SmilesError, UsageError
from molattn.explain import AttentionMap, Attribution
from molattn.inference.explainer import Explainer
from molattn.inference.trade_offs import Property, TradeOffs
from molattn.viewer.web.variants import Details, page_of_variants


def variant_page(found: TradeOffs, properties: Sequence[Property], size: int) -> str:
    """The page of the first `size` variants: an HTML document that needs no network and no other file."""
    texts = [found.results[0].smiles, *(row[0].variant.smiles for row in found.rows[:size])]
    details = [_details(p.predictor, p.options.target, texts) for p in properties]
    return page_of_variants(found, size, details)


def _details(predictor: object, target: str | None, texts: Sequence[str]) -> list[Details]:
    """The attribution and the received attention of the parent and of each variant, where the model has them."""
    if not isinstance(predictor, Explainer):
        return [Details()] * len(texts)
    maps = list(predictor.attentions(texts))
    try:
        values: list[Attribution | SmilesError | None] = [*predictor.attribution_rows(texts, target=target)]
    except UsageError:  # a model of tokens has none
        values = [None] * len(texts)
    return [_detail(text, m, a) for text, m, a in zip(texts, maps, values, strict=True)]


def _detail(text: str, attention: AttentionMap | SmilesError, attribution: Attribution | SmilesError | None) -> Details:
    """Those whose atoms are the atoms of the SMILES: not of a molecule that the model standardized, nor of tokens."""
    received = values = None
    method = faithfulness = ""
    if isinstance(attention, AttentionMap) and attention.position_type == "atoms" and attention.smiles == text:
        received = np.asarray(attention.matrix(attention.num_layers - 1, "mean"), dtype=np.float64).mean(0)
        faithfulness = attention.faithfulness
    if isinstance(attribution, Attribution) and attribution.smiles == text:
        values, method, faithfulness = attribution.values, attribution.method, attribution.faithfulness
    return Details(values, received, method, faithfulness)
