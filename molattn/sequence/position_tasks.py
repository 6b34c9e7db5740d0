"""What a key bias per position is good for: eight small trainings, and what their heads look at.

Attention compares what stands at two places; where a place is, it does not know. A key bias of its own for every
position tells it: b_kj adds q_i . b_kj to every logit of column j, so a head can look at row 2 whatever stands there.

The inputs are 1,000 tables x of 5 rows and 7 channels, uniform in [0, 1). Three tasks, row by row:

| task             | target                | what must be looked at |
|------------------|-----------------------|------------------------|
| "row sum"        | y_ic = sum_c' x_ic'   | the row itself         |
| "add row 2"      | y_i = x_i + x_2       | the row itself, row 2  |
| "replace by row 2" | y_i = x_2           | row 2                  |

"Row 2" is the second one, index 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from molattn.attention import MultiHeadAttention

ROWS, CHANNELS, INPUTS, BATCH_SIZE = 5, 7, 1000, 32
ROW_2 = 1

TASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "row sum": lambda x: x.sum(-1, keepdim=True).expand_as(x),
    "add row 2": lambda x: x + x[:, ROW_2 : ROW_2 + 1],
    "replace by row 2": lambda x: x[:, ROW_2 : ROW_2 + 1].expand_as(x),
}


@dataclass(frozen=True)
class PositionTraining:
    """One of the trainings.

    Attributes:
        task: a name in `TASKS`.
        key_bias: "per_position", or "shared" as in Keras.
        num_heads, head_dim: of the layer.
        published: the final loss that was reported for it, with another seed.
    """

    task: str
    key_bias: str
    num_heads: int
    head_dim: int
    published: float


TRAININGS: tuple[PositionTraining, ...] = (
    PositionTraining("row sum", "per_position", 8, 7, 0.0093),
    PositionTraining("add row 2", "per_position", 8, 7, 0.0012),
    PositionTraining("replace by row 2", "per_position", 8, 7, 2.3e-6),
    PositionTraining("row sum", "shared", 8, 7, 0.0115),
    PositionTraining("add row 2", "shared", 8, 7, 0.068),
    PositionTraining("replace by row 2", "shared", 8, 7, 0.062),
    PositionTraining("add row 2", "per_position", 1, 7, 0.0209),
    PositionTraining("add row 2", "per_position", 8, 1, 0.0765),
)


@dataclass(frozen=True)
class PositionResult:
    """How a training went.

    Attributes:
        losses: mean squared error over the batches of each epoch, (epochs,).
        weights: what each row looks at, head by head, averaged over all inputs: (heads, 5, 5).
    """

    losses: tuple[float, ...]
    weights: Float[Tensor, "h i j"]


def train_on_positions(training: PositionTraining, epochs: int = 200, seed: int = 0) -> PositionResult:
    """Train one multi-head self-attention layer, and nothing else, on a task.

    loss = mean (layer(x) - y)^2;  Adam at 0.001 on batches of 32

    The same seed gives the same result, and the caller's random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.rand(INPUTS, ROWS, CHANNELS)
        y = TASKS[training.task](x)
        layer = keras_like(
            MultiHeadAttention(
                CHANNELS,
                training.num_heads,
                head_dim=training.head_dim,
                key_bias=training.key_bias,
                max_length=ROWS if training.key_bias == "per_position" else None,
            )
        )
        # Keras' epsilon; with torch's 1e-8 small gradients would step further.
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.001, eps=1e-7)
        losses = []
        for _ in range(epochs):
            total = 0.0
            for rows in torch.randperm(INPUTS).split(BATCH_SIZE):
                loss = F.mse_loss(layer(x[rows]), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(rows)
            losses.append(total / INPUTS)
        with torch.no_grad():
            _, weights = layer(x, return_weights=True)
    return PositionResult(tuple(losses), weights.mean(0))


def keras_like(layer: MultiHeadAttention) -> MultiHeadAttention:
    """`layer` as Keras would start it: Glorot's uniform kernels over all heads, and biases of zero.

    The fans are those of Keras' kernels, (channels, heads, head_dim) and (heads, head_dim, channels), whose last two
    axes count as the fans and whose first one as a receptive field.

    Source: Glorot and Bengio 2010, https://proceedings.mlr.press/v9/glorot10a.html.
    """
    h, d, c = layer.num_heads, layer.head_dim, layer.embed_dim
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if parameter.dim() != 2:
                parameter.zero_()
                continue
            fans = h * d + h * c if name.startswith("join") else c * h + c * d
            bound = (6 / fans) ** 0.5
            parameter.uniform_(-bound, bound)
    return layer
