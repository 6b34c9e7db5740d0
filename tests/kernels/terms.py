"""Attention over padded graphs with edge features, by any backend: inputs of the tests of kernels."""

from dataclasses import dataclass

from torch import Tensor

from molattn.attention import BACKENDS, EdgeTerms, PaddedGraphLayout, attend, attention_weights, backend


@dataclass(frozen=True)
class Terms:
    """Packed q, k and v, (b, n, 3, h, d), the edges, and the masks."""

    packed: Tensor
    e: Tensor
    w_ke: Tensor
    w_ve: Tensor
    w_be: Tensor | None = None
    node_mask: Tensor | None = None
    edge_mask: Tensor | None = None
    dropout_mask: Tensor | None = None

    @property
    def layout(self) -> PaddedGraphLayout:
        return PaddedGraphLayout(self.node_mask, self.edge_mask, padding_is_finite=True)

    @property
    def edges(self) -> EdgeTerms:
        return EdgeTerms(self.e, self.w_ke, self.w_ve, self.w_be)

    def weights(self) -> Tensor:
        q, k, _ = (x.transpose(1, 2) for x in self.packed.unbind(2))
        return attention_weights(q, k, self.layout, edges=self.edges)


def attention_by(terms: Terms, *backends: str) -> Tensor:
    """(b, n, h, d), by one of these backends."""
    q, k, v = (x.transpose(1, 2) for x in terms.packed.unbind(2))
    with backend(*backends):
        return attend(q, k, v, terms.layout, edges=terms.edges, dropout_mask=terms.dropout_mask).transpose(1, 2)


def edge_attention(terms: Terms) -> Tensor:
    """By the first backend that supports the terms."""
    return attention_by(terms, *BACKENDS)


def reference_edge_attention(terms: Terms) -> Tensor:
    """By the reference backend."""
    return attention_by(terms, "reference")
