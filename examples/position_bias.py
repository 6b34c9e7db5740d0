"""What a key bias per position is good for: eight small trainings, and the attention weights of their heads.

Attention compares the contents of two positions, not the positions themselves. With a key bias per position it depends
on the position too: b_kj adds q_i . b_kj to every logit of key j, so a head can attend to row 2 independently of its
content.

The inputs are 1,000 tables x of 5 rows and 7 channels, uniform in [0, 1). Three tasks, row by row:

| task               | target              | rows to attend to     |
|--------------------|---------------------|-----------------------|
| "row sum"          | y_ic = sum_c' x_ic' | the row itself        |
| "add row 2"        | y_i = x_i + x_2     | the row itself, row 2 |
| "replace by row 2" | y_i = x_2           | row 2                 |

"Row 2" is the second one, index 1.

    python -m examples.position_bias              # 200 epochs each, under a minute
    python -m examples.position_bias --seed 1

prints the final losses next to the published ones. Seeds differ from the published run, so only the order of magnitude
is comparable; what must hold is how the losses compare with each other.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from molattn.attention import MultiHeadAttention

NUM_ROWS, CHANNELS, NUM_INPUTS, BATCH_SIZE = 5, 7, 1000, 32
ROW_2 = 1

TASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "row sum": lambda x: x.sum(-1, keepdim=True).expand_as(x),
    "add row 2": lambda x: x + x[:, ROW_2 : ROW_2 + 1],
    "replace by row 2": lambda x: x[:, ROW_2 : ROW_2 + 1].expand_as(x),
}


@dataclass(frozen=True)
class PositionTraining:
    """The settings of one training.

    Attributes:
        task: a name in `TASKS`.
        key_bias: "per_position", or "shared" as in Keras.
        num_heads, head_dim: those of the layer.
        published_loss: the published final loss, from another seed.
    """

    task: str
    key_bias: str
    num_heads: int
    head_dim: int
    published_loss: float


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
    """The result of a training.

    Attributes:
        losses: mean squared error over the batches of each epoch, (epochs,).
        weights: attention weights of every head, averaged over all inputs: (heads, 5, 5).
    """

    losses: tuple[float, ...]
    weights: Float[Tensor, "h i j"]


def train_on_positions(training: PositionTraining, epochs: int = 200, seed: int = 0) -> PositionResult:
    """Trains a single multi-head self-attention layer on a task.

    loss = mean (layer(x) - y)^2;  Adam at 0.001 on batches of 32

    The same seed gives the same result; the global random state is restored.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.rand(NUM_INPUTS, NUM_ROWS, CHANNELS)
        y = TASKS[training.task](x)
        layer = init_like_keras(
            MultiHeadAttention(
                CHANNELS,
                training.num_heads,
                head_dim=training.head_dim,
                key_bias=training.key_bias,
                max_length=NUM_ROWS if training.key_bias == "per_position" else None,
            )
        )
        # Keras' epsilon; torch's 1e-8 gives larger steps for small gradients.
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.001, eps=1e-7)
        losses = []
        for _ in range(epochs):
            total = 0.0
            for rows in torch.randperm(NUM_INPUTS).split(BATCH_SIZE):
                loss = F.mse_loss(layer(x[rows]), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(rows)
            losses.append(total / NUM_INPUTS)
        with torch.no_grad():
            _, weights = layer(x, return_weights=True)
    return PositionResult(tuple(losses), weights.mean(0))


def init_like_keras(layer: MultiHeadAttention) -> MultiHeadAttention:
    """Initializes `layer` as Keras does: Glorot uniform kernels over all heads, and zero biases.

    The fans are those of Keras' kernels, (channels, heads, head_dim) and (heads, head_dim, channels): the last two axes
    are the fans, the first one is the receptive field.

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


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the layer is too small to share
    print("| task | key bias | heads | head size | final loss | published |")
    print("|---|---|---|---|---|---|")
    start = time.perf_counter()
    for t in TRAININGS:
        loss = train_on_positions(t, arguments.epochs, arguments.seed).losses[-1]
        kind = t.key_bias.replace("_", " ")
        print(f"| {t.task} | {kind} | {t.num_heads} | {t.head_dim} | {loss:.2g} | {t.published_loss:.2g} |", flush=True)
    seconds = time.perf_counter() - start
    print(
        f"\nSeed {arguments.seed}, {arguments.epochs} epochs, {seconds:.0f} s in all, on one thread of "
        f"a machine with {os.cpu_count()} CPU cores ({platform.machine()}), torch {version('torch')}."
    )


if __name__ == "__main__":
    main()
