"""The Transformer: from tokens to the logits of the next token."""

from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from molattn.attention import causal_padding_mask, padding_mask
from molattn.sequence.caches import DecoderLayerCache
from molattn.sequence.embedding import PAD, ChannelOrder, PositionalEmbedding, check_tokens
from molattn.sequence.layers import Activation
from molattn.sequence.stacks import Decoder, Encoder


@dataclass(frozen=True)
class TransformerWeights:
    """The attention weights, one tensor per layer, first layer first.

    Attributes:
        encoder: source to source, each (batch, heads, source, source).
        decoder: target to target (self-attention of the decoder), each (batch, heads, target, target).
        cross: target to source (cross-attention), each (batch, heads, target, source).

    >>> import torch
    >>> from molattn.sequence import Transformer
    >>> model = Transformer(source_vocab=11, target_vocab=13, d_model=8, num_heads=2, num_layers=1)
    >>> _, weights = model(torch.tensor([[3, 4, 5, 0]]), torch.tensor([[1, 6]]), return_weights=True)
    >>> weights.decoder[0][0, :, 0].tolist()  # of the first target token in both heads: only to itself
    [[1.0, 0.0], [1.0, 0.0]]
    >>> weights.cross[0][..., 3].any().item()  # none to the padding of the source
    False
    """

    encoder: tuple[Float[Tensor, "b h m m"], ...]
    decoder: tuple[Float[Tensor, "b h n n"], ...]
    cross: tuple[Float[Tensor, "b h n m"], ...]


@dataclass(frozen=True)
class TransformerState:
    """The decoding state after j target tokens.

    Attributes:
        caches: cached keys and values of every decoder layer.
        source_mask: (batch, 1, 1, source), True for tokens, False for padding.
        target_mask: (batch, 1, 1, j), likewise.

    >>> import torch
    >>> from molattn.sequence import Transformer
    >>> model = Transformer(source_vocab=11, target_vocab=13, d_model=8, num_heads=2, num_layers=1)
    >>> logits, state = model.step(torch.tensor([1]), model.init_state(torch.tensor([[3, 4, 0]])))
    >>> state.source_mask.flatten().tolist(), state.target_mask.flatten().tolist()
    ([True, True, False], [True])
    """

    caches: tuple[DecoderLayerCache, ...]
    source_mask: Bool[Tensor, "b 1 1 m"]
    target_mask: Bool[Tensor, "b 1 1 j"]

    def select(self, rows: Int[Tensor, "k"]) -> "TransformerState":
        """The state of these `rows` of the batch, (k,) integers, in that order; rows may be repeated."""
        caches = tuple(cache.select(rows) for cache in self.caches)
        return TransformerState(caches, self.source_mask[rows], self.target_mask[rows])


class Transformer(nn.Module):
    """The encoder-decoder Transformer with embeddings and output layer.

    memory = Encoder(sqrt(d) E_s[source] + P)
    logits = W_o Decoder(sqrt(d) E_t[target] + P, memory) + b_o

    Token 0 is padding and is masked; a target token attends to itself and to the tokens before it.

    Args:
        source_vocab, target_vocab: vocabulary sizes, including token 0.
        d_model: channels.
        num_heads: number of heads of every attention.
        num_layers: number of layers of the encoder and of the decoder.
        hidden_dim: hidden channels of the feed-forward networks; 4 * d_model by default.
        head_dim: channels of one head; d_model / num_heads by default.
        activation: "relu", "gelu" or a function.
        norm_first: pre-norm, with a final layer norm in each stack, if True; post-norm if False.
        dropout: dropout probability of embeddings, attention weights, sublayer outputs and the hidden channels of the
            feed-forward networks, in training.
        channel_order: of the positional encoding, "concatenated", "interleaved" or a function.

    Raises:
        ValueError: the activation or channel order is unknown; head_dim is None and num_heads does not divide d_model;
            a size is below 1, or num_layers below 0; dropout is not in [0, 1).

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.sequence import Transformer
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
        channel_order: str | ChannelOrder = "concatenated",
    ):
        super().__init__()
        self.embed_source = PositionalEmbedding(source_vocab, d_model, channel_order, dropout)
        self.embed_target = PositionalEmbedding(target_vocab, d_model, channel_order, dropout)
        settings: dict[str, Any] = {
            "head_dim": head_dim,
            "activation": activation,
            "norm_first": norm_first,
            "dropout": dropout,
        }
        self.encoder = Encoder(num_layers, d_model, num_heads, hidden_dim, **settings)
        self.decoder = Decoder(num_layers, d_model, num_heads, hidden_dim, **settings)
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
        """The logits of the next token after each target token.

        Args:
            source: (batch, source) integers; 0 is padding.
            target: (batch, target) integers, beginning with the start token; 0 is padding.
            return_weights: also return the attention weights of every layer.

        Returns:
            (batch, target, target_vocab); with `return_weights` also the `TransformerWeights`.

        Raises:
            ValueError: source or target has another shape, or their numbers differ.
        """
        check_tokens(source=source, target=target)
        source_mask = padding_mask(source != PAD)
        x, y = self.embed_source(source), self.embed_target(target)
        masks = causal_padding_mask(target != PAD), source_mask
        if not return_weights:
            return self.output(self.decoder(y, self.encoder(x, source_mask), *masks))
        memory, encoder = self.encoder(x, source_mask, return_weights=True)
        y, decoder = self.decoder(y, memory, *masks, return_weights=True)
        return self.output(y), TransformerWeights(encoder, decoder.self_attention, decoder.cross_attention)

    def init_state(self, source: Int[Tensor, "b m"]) -> TransformerState:
        """Encodes the source, (batch, source): the state before the first target token.

        Raises:
            ValueError: the source has another shape.
        """
        check_tokens(source=source)
        source_mask = padding_mask(source != PAD)
        memory = self.encoder(self.embed_source(source), source_mask)
        return TransformerState(self.decoder.init_cache(memory), source_mask, source_mask[..., :0])

    def step(
        self, tokens: Int[Tensor, "b"], state: TransformerState
    ) -> tuple[Float[Tensor, "b vocab"], TransformerState]:
        """Consumes one target token: the logits of the next one and the new state.

        The logits equal the last row of `forward` on all tokens so far, without recomputing the earlier ones.

        Args:
            tokens: (batch,) integers.
            state: from `init_state` or the previous step.

        Returns:
            (batch, target_vocab), and the state after this token.
        """
        target = tokens[:, None]
        target_mask = torch.cat([state.target_mask, padding_mask(target != PAD)], dim=-1)
        y = self.embed_target(target, offset=state.target_mask.shape[-1])
        y, caches, _ = self.decoder.forward_with_cache(y, state.caches, target_mask, state.source_mask)
        return self.output(y[:, 0]), TransformerState(caches, state.source_mask, target_mask)

    @classmethod
    def from_torch(
        cls,
        model: nn.Transformer,
        source_vocab: int,
        target_vocab: int,
        *,
        channel_order: str | ChannelOrder = "concatenated",
        dropout: float = 0.0,
    ) -> "Transformer":
        """A model with the encoder and decoder of torch's, which has no embeddings and no output layer.

        The two stacks have the weights, settings, dtype, device and training mode of torch's, as from
        `Encoder.from_torch` and `Decoder.from_torch`; embeddings and output layer are newly initialized, as in
        `Transformer(source_vocab, target_vocab, ...)`.

        Args:
            model: torch's model.
            source_vocab, target_vocab: as for `Transformer`.
            channel_order: of the positional encoding.
            dropout: dropout probability of the embeddings, in training.

        Raises:
            TypeError: `model` is not a `torch.nn.Transformer`, or as for `Encoder.from_torch` and `Decoder.from_torch`.
            ValueError: torch's model has a feature that is not supported, such as a hook or a subclass; the message
                names it.
        """
        from molattn.sequence.convert import transformer_from_torch

        return transformer_from_torch(model, source_vocab, target_vocab, channel_order=channel_order, dropout=dropout)
