"""Stacks of encoder and decoder layers; `Transformer` adds the embeddings and the output layer."""

from dataclasses import dataclass
from typing import ClassVar, Literal, cast, overload

from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention.arguments import check_sizes
from molattn.sequence.caches import DecoderLayerCache
from molattn.sequence.embedding import zero_nonfinite_padding
from molattn.sequence.layers import Activation, DecoderLayer, EncoderLayer


@dataclass(frozen=True)
class DecoderWeights:
    """The attention weights of the decoder, one tensor per layer, first layer first.

    Attributes:
        self_attention: target to target, each (batch, heads, target, target).
        cross_attention: target to source, each (batch, heads, target, source).

    >>> import torch
    >>> from molattn.sequence import Decoder
    >>> decoder = Decoder(num_layers=2, d_model=8, num_heads=2)
    >>> _, weights = decoder(torch.randn(1, 4, 8), torch.randn(1, 6, 8), return_weights=True)
    >>> [tuple(w.shape) for w in weights.cross_attention]
    [(1, 2, 4, 6), (1, 2, 4, 6)]
    """

    self_attention: tuple[Float[Tensor, "b h n j"], ...]
    cross_attention: tuple[Float[Tensor, "b h n m"], ...]


class _Stack(nn.Module):
    """The layers of an encoder or decoder, and the layer norm after them."""

    layer_type: ClassVar[type[EncoderLayer] | type[DecoderLayer]]

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        head_dim: int | None = None,
        activation: str | Activation = "relu",
        norm_first: bool = False,
        dropout: float = 0.0,
        layer_norm_eps: float = 1e-5,
        bias: bool = True,
        final_norm: bool | None = None,
    ):
        super().__init__()
        check_sizes(0, num_layers=num_layers)
        layers = [
            self.layer_type(
                d_model,
                num_heads,
                hidden_dim,
                head_dim=head_dim,
                activation=activation,
                norm_first=norm_first,
                dropout=dropout,
                layer_norm_eps=layer_norm_eps,
                bias=bias,
            )
            for _ in range(num_layers)
        ]
        self.layers = nn.ModuleList(layers)
        final_norm = norm_first if final_norm is None else final_norm
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias) if final_norm else nn.Identity()


class Encoder(_Stack):
    """A stack of encoder layers, with a final layer norm if they are pre-norm or `final_norm` is True.

    x_l = EncoderLayer_l(x_(l-1));    y = norm(x_L) if final_norm else x_L

    Args:
        num_layers: L; 0 for none.
        d_model, num_heads, hidden_dim, head_dim, activation, norm_first, dropout, layer_norm_eps, bias: those of
            `EncoderLayer`.
        final_norm: whether a layer norm follows the last layer; norm_first by default.

    Raises:
        ValueError: num_layers is negative; as for `EncoderLayer`.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.sequence import Encoder
    >>> encoder = Encoder(num_layers=2, d_model=8, num_heads=2)
    >>> y, weights = encoder(torch.randn(3, 5, 8), return_weights=True)
    >>> tuple(y.shape), [tuple(w.shape) for w in weights]
    ((3, 5, 8), [(3, 2, 5, 5), (3, 2, 5, 5)])
    """

    layer_type = EncoderLayer

    @overload
    def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, return_weights: Literal[True]
    ) -> tuple[Tensor, tuple[Tensor, ...]]: ...

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Tensor | None = None, return_weights: bool = False
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], tuple[Float[Tensor, "b h n n"], ...]]:
        """The encoded sequence and, with `return_weights`, the attention weights of every layer.

        NaN and infinity in rows of x that no query attends to, such as padding, do not reach other rows or gradients.

        Args:
            x: (batch, n, d_model).
            mask: broadcastable to (batch, heads, n, n), of 2 or 4 dimensions; boolean, True where a query may attend,
                or float, added to the logits.
            return_weights: also return the attention weights.

        Returns:
            (batch, n, d_model); with `return_weights` also the weights of every layer, each (batch, heads, n, n).

        Raises:
            ValueError, TypeError: the mask is wrong, as for `MultiHeadAttention`.
        """
        if not return_weights:
            for layer in self.layers:
                x = layer(x, mask)
            return self.norm(x)
        all_weights = []
        for layer in self.layers:
            x, weights = layer(x, mask, return_weights=True)
            all_weights.append(weights)
        return self.norm(x), tuple(all_weights)

    @classmethod
    def from_torch(cls, stack: nn.TransformerEncoder) -> "Encoder":
        """A stack with the weights, settings, dtype, device and training mode of torch's, as `EncoderLayer.from_torch`.

        Raises:
            TypeError: `stack` is not a `torch.nn.TransformerEncoder`, or a layer of it not a
                `torch.nn.TransformerEncoderLayer`.
            ValueError: torch's stack has no layers, or a feature that is not supported, such as a hook or a subclass;
                the message names it.
        """
        from molattn.sequence.convert import encoder_from_torch

        return encoder_from_torch(stack)


class Decoder(_Stack):
    """A stack of decoder layers, with a final layer norm if they are pre-norm or `final_norm` is True.

    x_l = DecoderLayer_l(x_(l-1), memory);    y = norm(x_L) if final_norm else x_L

    It is not causal by default: pass a `causal_mask` or a `causal_padding_mask`.

    Args:
        num_layers: L; 0 for none.
        d_model, num_heads, hidden_dim, head_dim, activation, norm_first, dropout, layer_norm_eps, bias: those of
            `DecoderLayer`.
        final_norm: whether a layer norm follows the last layer; norm_first by default.

    Raises:
        ValueError: num_layers is negative; as for `DecoderLayer`.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.sequence import Decoder, causal_mask
    >>> decoder = Decoder(num_layers=2, d_model=8, num_heads=2)
    >>> x, memory = torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    >>> y = decoder(x, memory, causal_mask(4))
    >>> first, _, _ = decoder.forward_with_cache(x[:, :1], decoder.init_cache(memory))
    >>> torch.allclose(first, y[:, :1], atol=1e-5)  # a token does not depend on later ones
    True
    """

    layer_type = DecoderLayer

    def init_cache(self, memory: Float[Tensor, "b m d"]) -> tuple[DecoderLayerCache, ...]:
        """The cache of every layer before the first target token.

        Args:
            memory: the encoder output, (batch, m, d_model).
        """
        return tuple(layer.init_cache(memory) for layer in self._layers())

    def forward_with_cache(
        self,
        x: Float[Tensor, "b n d"],
        caches: tuple[DecoderLayerCache, ...],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "b n d"], tuple[DecoderLayerCache, ...], DecoderWeights | None]:
        """The output of the stack for the next n target tokens, after the j tokens in the caches.

        Args:
            x: (batch, n, d_model).
            caches: one for each layer, from `init_cache` or the previous call.
            mask, memory_mask, return_weights: as for `DecoderLayer.forward_with_cache`.

        Returns:
            (batch, n, d_model), the caches of all j + n tokens, and the weights of every layer, each
            (batch, heads, n, j + n) and (batch, heads, n, m), or None without `return_weights`.

        Raises:
            ValueError: the number of caches is not that of the layers; a mask is wrong, as for `MultiHeadAttention`.
            TypeError: an integer mask.
        """
        layers = list(self._layers())
        if len(caches) != len(layers):
            raise ValueError(f"{len(caches)} caches for {len(layers)} layers: pass those of init_cache")
        new_caches, self_attention, cross_attention = [], [], []
        for layer, cache in zip(layers, caches, strict=True):
            x, new_cache, weights = layer.forward_with_cache(x, cache, mask, memory_mask, return_weights)
            new_caches.append(new_cache)
            if weights is not None:
                self_attention.append(weights[0])
                cross_attention.append(weights[1])
        weights = DecoderWeights(tuple(self_attention), tuple(cross_attention)) if return_weights else None
        return self.norm(x), tuple(new_caches), weights

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, DecoderWeights]: ...

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], DecoderWeights]:
        """The decoded sequence and, with `return_weights`, the attention weights of every layer.

        NaN and infinity in rows of x or memory that no query attends to, such as padding, do not reach other rows or
        gradients.

        Args:
            x: (batch, n, d_model).
            memory: the encoder output, (batch, m, d_model).
            mask: mask of the target, broadcastable to (batch, heads, n, n), of 2 or 4 dimensions; boolean, True where a
                query may attend, or float, added to the logits.
            memory_mask: mask of the source, broadcastable to (batch, heads, n, m), likewise.
            return_weights: also return the attention weights.

        Returns:
            (batch, n, d_model); with `return_weights` also the `DecoderWeights`.

        Raises:
            ValueError, TypeError: a mask is wrong, as for `MultiHeadAttention`.
        """
        x, memory = zero_nonfinite_padding(x, mask), zero_nonfinite_padding(memory, memory_mask)
        x, _, weights = self.forward_with_cache(x, self.init_cache(memory), mask, memory_mask, return_weights)
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, stack: nn.TransformerDecoder) -> "Decoder":
        """A stack with the weights, settings, dtype, device and training mode of torch's, as `EncoderLayer.from_torch`.

        Raises:
            TypeError: `stack` is not a `torch.nn.TransformerDecoder`, or a layer of it not a
                `torch.nn.TransformerDecoderLayer`.
            ValueError: torch's stack has no layers, or a feature that is not supported, such as a hook or a subclass;
                the message names it.
        """
        from molattn.sequence.convert import decoder_from_torch

        return decoder_from_torch(stack)

    def _layers(self) -> list[DecoderLayer]:
        # For a type checker a ModuleList contains Modules. The type is quoted because torch.compile of torch 2.6 fails
        # otherwise.
        return cast("list[DecoderLayer]", list(self.layers))
