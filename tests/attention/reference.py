"""Attention in numpy, pair by pair and query by query: the reference for every score and normalizer."""

from collections.abc import Callable

import numpy as np
from torch import nn

from molattn.attention import SCORES, SCORES_WITH_WEIGHTS, Additive, General, Location, make_score

Array = np.ndarray
SCORE_NAMES = [*SCORES, *SCORES_WITH_WEIGHTS]


def array(parameter: nn.Parameter) -> Array:
    return parameter.detach().numpy()


def pair_score(score: object) -> Callable[[Array, Array, int], float]:
    """The score of one query with the key at position j."""
    if isinstance(score, General):
        w = array(score.w.weight).T
        return lambda q, k, _j: float(q @ w @ k)
    if isinstance(score, Additive):
        w_q, w_k, b = array(score.w_q.weight), array(score.w_k.weight), array(score.w_k.bias)
        w = array(score.w.weight)[0]
        return lambda q, k, _j: float(sum(w[h] * np.tanh(w_q[h] @ q + w_k[h] @ k + b[h]) for h in range(len(w))))
    if isinstance(score, Location):
        w = array(score.w.weight)
        return lambda q, _k, j: float(w[j] @ q)
    if score is make_score("scaled_dot", 1, 1):
        return lambda q, k, _j: float(q @ k) / len(q) ** 0.5
    return lambda q, k, _j: float(q @ k)


def softmax(x: Array, temperature: float = 1.0) -> Array:
    e = np.exp((x - x.max()) / temperature)
    return e / e.sum()


def hardmax(x: Array) -> Array:
    return (x == x.max()) / (x == x.max()).sum()


def uniform(x: Array) -> Array:
    return np.full(len(x), 1 / len(x))


def sparsemax(x: Array) -> Array:
    """By sorting, as in the paper: the largest k with 1 + k z_(k) > sum of the k largest."""
    z = np.sort(x)[::-1]
    k = max(k for k in range(1, len(z) + 1) if 1 + k * z[k - 1] > z[:k].sum())
    return np.maximum(x - (z[:k].sum() - 1) / k, 0)


def attention(score: object, normalizer: Callable[[Array], Array], q: Array, k: Array, mask: Array) -> Array:
    """(i, d_q), (j, d_k), (i, j) -> the weights (i, j), one query after another."""
    weights = np.zeros(mask.shape)
    of_pair = pair_score(score)
    for i in range(len(q)):
        allowed = np.flatnonzero(mask[i])
        if len(allowed):
            weights[i, allowed] = normalizer(np.array([of_pair(q[i], k[j], int(j)) for j in allowed]))
    return weights
