"""The Transformer: tokens in, the logits of the next token out."""

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from molattn.sequence.layers import Activation, LayerCache
from molattn.sequence.masks import causal_padding_mask, padding_mask
from molattn.sequence.positions import Layout, PositionalEmbedding
from molattn.sequence.stacks import Decoder, Encoder


@dataclass(frozen=True)
class TransformerWeights:
    """Who attended to whom, in every block, first block first.

    Attributes:
        encoder: the source to itself, each (batch, heads, source, source).
        decoder: the target to itself so far, each (batch, heads, target, target).
        cross: the target to the source, each (batch, heads, target, source).
    """

    encoder: tuple[Float[Tensor, "b h m m"], ...]
    decoder: tuple[Float[Tensor, "b h n n"], ...]
    cross: tuple[Float[Tensor, "b h n m"], ...]


@dataclass(frozen=True)
class TransformerState:
    """Decoding, after j target tokens.

    Attributes:
        caches: keys and values of every block of the decoder.
        source_mask: (batch, 1, 1, source), True where there is a token.
        target_mask: (batch, 1, 1, j), likewise.
    """

    caches: tuple[LayerCache, ...]
    source_mask: Bool[Tensor, "b 1 1 m"]
    target_mask: Bool[Tensor, "b 1 1 j"]

    def select(self, rows: Int[Tensor, "k"]) -> "TransformerState":
        """That of the given members of the batch, in that order; a member may come back several times."""
        caches = tuple(cache.select(rows) for cache in self.caches)
        return TransformerState(caches, self.source_mask[rows], self.target_mask[rows])


class Transformer(nn.Module):
    """The whole model.

    memory = Encoder(sqrt(d) E_s[source] + P)
    logits = W_o Decoder(sqrt(d) E_t[target] + P, memory) + b_o

    Token 0 is padding and is looked at by nobody; a target token looks at itself and at what came before.

    Args:
        source_vocab, target_vocab: how many tokens there are, token 0 included.
        d_model: channels.
        num_heads: heads of every attention.
        num_layers: blocks of the encoder, and of the decoder.
        hidden_dim: channels inside the feed-forwards; 4 * d_model by default.
        head_dim: channels of one head; d_model / num_heads by default, d_model for heads as wide as the model.
        activation: "relu", "gelu" or a function.
        norm_first: pre-norm, with a last layer norm in each stack, if True; post-norm if False.
        dropout: on embeddings, weights, what a sublayer adds and inside the feed-forwards, in training.
        layout: of the sinusoidal positions, "concatenated" or "interleaved".

    Raises:
        ValueError: an unknown activation or layout; no head_dim and num_heads does not divide d_model.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> model = Transformer(source_vocab=11, target_vocab=13, d_model=8, num_heads=2, num_layers=1)
    >>> source, target = torch.tensor([[3, 4, 5, 0]]), torch.tensor([[1, 6, 7]])
    >>> tuple(model(source, target).shape)
    (1, 3, 13)
    >>> _, weights = model(source, target, return_weights=True)
    >>> [tuple(w.shape) for w in weights.cross]
    [(1, 2, 3, 4)]
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        num_heads: int,
        *,
        num_layers: int = 6,
        hidden_dim: int | None = None,
        head_dim: int | None = None,
        activation: str | Activation = "relu",
        norm_first: bool = False,
        dropout: float = 0.0,
        layout: str | Layout = "concatenated",
    ):
        super().__init__()
        self.embed_source = PositionalEmbedding(source_vocab, d_model, layout, dropout)
        self.embed_target = PositionalEmbedding(target_vocab, d_model, layout, dropout)
        self.encoder = Encoder(
            num_layers,
            d_model,
            num_heads,
            hidden_dim,
            head_dim=head_dim,
            activation=activation,
            norm_first=norm_first,
            dropout=dropout,
        )
        self.decoder = Decoder(
            num_layers,
            d_model,
            num_heads,
            hidden_dim,
            head_dim=head_dim,
            activation=activation,
            norm_first=norm_first,
            dropout=dropout,
        )
        self.output = nn.Linear(d_model, target_vocab)

    @overload
    def forward(self, source: Tensor, target: Tensor, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, source: Tensor, target: Tensor, *, return_weights: Literal[True]
    ) -> tuple[Tensor, TransformerWeights]: ...

    def forward(
        self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"], return_weights: bool = False
    ) -> Float[Tensor, "b n vocab"] | tuple[Float[Tensor, "b n vocab"], TransformerWeights]:
        """The logits of the token that follows each target token, given the source and the target up to there.

        Args:
            source: (batch, source) integers.
            target: (batch, target) integers, the first of which says "start".
            return_weights: also return the weights of every block, which are not computed otherwise.

        Returns:
            (batch, target, target_vocab), and the weights if asked for.
        """
        source_mask = padding_mask(source)
        x, y = self.embed_source(source), self.embed_target(target)
        masks = causal_padding_mask(target), source_mask
        if not return_weights:
            return self.output(self.decoder(y, self.encoder(x, source_mask), *masks))
        memory, encoder = self.encoder(x, source_mask, return_weights=True)
        y, of_decoder = self.decoder(y, memory, *masks, return_weights=True)
        return self.output(y), TransformerWeights(encoder, of_decoder.own, of_decoder.cross)

    def begin(self, source: Int[Tensor, "b m"]) -> TransformerState:
        """Read the source, (batch, source): the state before the first target token."""
        source_mask = padding_mask(source)
        memory = self.encoder(self.embed_source(source), source_mask)
        return TransformerState(self.decoder.begin(memory), source_mask, source_mask[..., :0])

    def step(
        self, tokens: Int[Tensor, "b"], state: TransformerState
    ) -> tuple[Float[Tensor, "b vocab"], TransformerState]:
        """One more target token, (batch,): the logits of the one that follows it, (batch, target_vocab), and the state.

        The same numbers as the last row of `forward` over all tokens so far, without their work done again.
        """
        target = tokens[:, None]
        target_mask = torch.cat([state.target_mask, padding_mask(target)], dim=-1)
        y = self.embed_target(target, first=state.target_mask.shape[-1])
        y, caches, _ = self.decoder.extend(y, state.caches, target_mask, state.source_mask)
        return self.output(y[:, 0]), TransformerState(caches, state.source_mask, target_mask)

    @classmethod
    def from_torch(cls, model: nn.Transformer, source_vocab: int, target_vocab: int, **settings: Any) -> "Transformer":
        """A model around the encoder and the decoder of torch's, which has no embeddings and no output of its own.

        The two stacks have the weights, settings, dtype, device and mode of torch's, as `Encoder.from_torch` and
        `Decoder.from_torch` give them; embeddings and output are new, as those of `Transformer(source_vocab,
        target_vocab, ...)`.

        Args:
            model: torch's.
            source_vocab, target_vocab: as those of `Transformer`.
            settings: `layout`, and `dropout` of the embeddings.

        Raises:
            ValueError: torch's model does what this one does not; the message says what.
        """
        from molattn.sequence.convert import transformer_from_torch

        return transformer_from_torch(model, source_vocab, target_vocab, **settings)
