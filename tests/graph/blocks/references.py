"""The published attentions in plain numpy, written from the papers: what the published blocks must agree with.

Each function is one layer of one paper, by loops over edges and heads. It takes the weights by their names and an edge
list as arrays; it shares with the others the steps that are the block's own (`before` and `after` the attention), and
nothing with the library.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf

Array = np.ndarray
WITH, WITHOUT = (True, True, True), (False, False, False)


@dataclass(frozen=True)
class Arrays:
    """An edge list: nodes v, edges e from sender to receiver, graph features u or None, neighbours of each node."""

    v: Array
    e: Array
    u: Array | None
    sender: list[int]
    receiver: list[int]
    node_graph: list[int]
    num_graphs: int
    degree: Array


@dataclass(frozen=True)
class Layer:
    """The output of a layer: v, e, u and the weights of the edges, (m, h)."""

    v: Array
    e: Array
    u: Array | None
    weights: Array


@dataclass(frozen=True)
class Weights:
    """The numbers of a layer by name, as matrices W of y = W x; `read` are the names of those that were read."""

    named: Mapping[str, Array]
    heads: int
    read: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Array:
        self.read.add(name)
        return self.named[name]

    def product(self, name: str, x: Array) -> Array:
        """W x."""
        return np.einsum("oi,...i->...o", self[f"{name}.weight"], x)

    def linear(self, name: str, x: Array) -> Array:
        """W x + b."""
        return self.product(name, x) + self[f"{name}.bias"]

    def split_heads(self, x: Array) -> Array:
        """Channels split into heads: (..., h, d)."""
        return x.reshape(*x.shape[:-1], self.heads, x.shape[-1] // self.heads)

    def norm(self, name: str, x: Array) -> Array:
        """Layer norm over the channels, with gain and shift."""
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self[f"{name}.weight"] + self[f"{name}.bias"]


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def leaky_relu(x: Array) -> Array:
    return np.where(x > 0, x, 0.1 * x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax_into_receivers(logits: Array, receiver: list[int]) -> Array:
    """exp(a_k) / sum exp(a_k') over the edges k' into the same receiver: (m, h)."""
    weights = np.zeros_like(logits)
    for r in set(receiver):
        into = [k for k, other in enumerate(receiver) if other == r]
        powers = np.exp(logits[into])
        weights[into] = powers / powers.sum(0)
    return weights


def sum_into_receivers(messages: Array, graph: Arrays) -> Array:
    """ebar_i, the sum of the edges into each node, heads side by side: (n, h * d)."""
    ebar = np.zeros((len(graph.v), *messages.shape[1:]))
    for k, r in enumerate(graph.receiver):
        ebar[r] += messages[k]
    return ebar.reshape(len(graph.v), -1)


def before(w: Weights, graph: Arrays, biases: tuple[bool, bool, bool]) -> tuple[Array, Array, Array, Array]:
    """The normalized nodes, and the queries, keys and values, (n, h, d), that they and u make, with biases or not."""
    x = w.norm("norm_v", graph.v)
    projected = []
    for of_node, of_graph, bias in zip(("w_q", "w_k", "w_v"), ("w_qu", "w_ku", "w_vu"), biases, strict=True):
        y = w.linear(f"phi_e.{of_node}", x) if bias else w.product(f"phi_e.{of_node}", x)
        if graph.u is not None:
            y = y + w.product(f"phi_e.{of_graph}", w.norm("norm_u", graph.u))[graph.node_graph]
        projected.append(w.split_heads(y))
    q, k, v = projected
    return x, q, k, v


def after(w: Weights, graph: Arrays, ebar: Array, messages: Array, weights: Array, e: Array | None = None) -> Layer:
    """The residual steps: the nodes from ebar, then u from the sums of the e'_k and the nodes of each graph."""
    x = graph.v + ebar
    if graph.u is not None:
        x = x + w.product("phi_v.w_u", graph.u)[graph.node_graph]
    hidden = gelu(w.linear("phi_v.feed_forward.0", w.norm("phi_v.norm", x)))
    v = x + w.linear("phi_v.feed_forward.3", hidden)
    u = None
    if graph.u is not None:
        u = np.zeros_like(graph.u)
        for b in range(graph.num_graphs):
            nodes = [i for i, other in enumerate(graph.node_graph) if other == b]
            own = [k for k, r in enumerate(graph.receiver) if graph.node_graph[r] == b]
            together = np.concatenate([messages[own].sum(0).reshape(-1), v[nodes].sum(0), graph.u[b]])
            hidden = gelu(w.linear("phi_u.feed_forward.1", w.norm("phi_u.feed_forward.0", together)))
            u[b] = graph.u[b] + w.linear("phi_u.feed_forward.3", hidden)
    return Layer(v, graph.e if e is None else e, u, weights)


def edges(graph: Arrays, w: Weights) -> list[tuple[int, int, int, int]]:
    """(k, s, r, h) for every edge k from s to r and every head h."""
    ends = enumerate(zip(graph.sender, graph.receiver, strict=True))
    return [(k, s, r, h) for k, (s, r) in ends for h in range(w.heads)]


def empty(w: Weights, graph: Arrays, like: Array) -> tuple[Array, Array]:
    """Logits, (m, h), and values, (m, h, d), to be filled in."""
    m = len(graph.sender)
    return np.zeros((m, w.heads)), np.zeros((m, w.heads, like.shape[-1]))


def tensor_dot(w: Weights, graph: Arrays) -> Layer:
    """Equations 14.1 to 14.9 of the book chapter, keys and values being the sender and its edge."""
    _, q, k_s, v_s = before(w, graph, WITHOUT)
    d = q.shape[-1]
    w_ke = w["phi_e.w_ke.weight"].reshape(w.heads, d, -1)
    w_ve = w["phi_e.w_ve.weight"].reshape(w.heads, d, -1)
    logits, values = empty(w, graph, v_s)
    for k, s, r, h in edges(graph, w):
        key = k_s[s, h] + w_ke[h] @ graph.e[k]  # 14.2 to 14.4
        values[k, h] = v_s[s, h] + w_ve[h] @ graph.e[k]
        logits[k, h] = q[r, h] @ key / np.sqrt(d)
    b = softmax_into_receivers(logits, graph.receiver)  # 14.5
    e_prime = b[..., None] * values  # 14.6, 14.7
    n, out = len(graph.v), w["join.linear.weight"].shape[0]
    w_jhl = w["join.linear.weight"].reshape(out, w.heads, d)  # as (l, h, j)
    ebar = np.tile(w["join.linear.bias"], (n, 1))
    for k, _, r, h in edges(graph, w):  # 14.8, 14.9: ebar_il = sum_kjh e'_kjh w_jhl
        for channel in range(out):
            ebar[r, channel] += e_prime[k, h] @ w_jhl[channel, h]
    return after(w, graph, ebar, e_prime, b)


def molattn(w: Weights, graph: Arrays) -> Layer:
    """Tensor-dot attention to the sender and its edge, with a learned bias of the edge."""
    _, q, k_s, v_s = before(w, graph, WITHOUT)
    d = q.shape[-1]
    k_e, v_e = w.split_heads(w.product("phi_e.w_ke", graph.e)), w.split_heads(w.product("phi_e.w_ve", graph.e))
    bias = w.product("phi_e.w_be", graph.e)
    logits, values = empty(w, graph, v_s)
    for k, s, r, h in edges(graph, w):
        logits[k, h] = q[r, h] @ (k_s[s, h] + k_e[k, h]) / np.sqrt(d) + bias[k, h]
        values[k, h] = v_s[s, h] + v_e[k, h]
    weights = softmax_into_receivers(logits, graph.receiver)
    messages = weights[..., None] * values
    ebar = sum_into_receivers(messages, graph)
    return after(w, graph, w.linear("join.linear", ebar), messages, weights)


def gaan(w: Weights, graph: Arrays) -> Layer:
    """Zhang et al. 2018, arXiv:1803.07294, equations 1 to 3 and the gates of section 3.2, with a bias of the edge.

    w_ij = softmax_j( <FC_xa(x_i), FC_za(z_j)> );  y_i = FC_o( x_i + [ g_i^h sum_j w_ij^h FC^lrelu_v(z_j) ] )
    g_i = FC^sigmoid_g( x_i + max_j FC_m(z_j) + mean_j z_j ), where + concatenates
    """
    x, q, k_s, v_s = before(w, graph, WITH)
    bias = w.product("phi_e.w_be", graph.e)
    logits, values = empty(w, graph, v_s)
    for k, s, r, h in edges(graph, w):
        logits[k, h] = q[r, h] @ k_s[s, h] + bias[k, h]
        values[k, h] = leaky_relu(v_s[s, h])
    weights = softmax_into_receivers(logits, graph.receiver)
    messages = weights[..., None] * values
    heads = sum_into_receivers(messages, graph).reshape(v_s.shape)
    ebar = []
    for i in range(len(x)):
        senders = [s for s, r in zip(graph.sender, graph.receiver, strict=True) if r == i]
        projected = w.linear("rho_ev.w_m", x)
        largest = projected[senders].max(0) if senders else np.zeros(projected.shape[-1])
        mean = x[senders].mean(0) if senders else np.zeros(x.shape[-1])
        gates = sigmoid(w.linear("rho_ev.w_g", np.concatenate([x[i], largest, mean])))
        gated = [gates[h] * heads[i, h] for h in range(w.heads)]
        ebar.append(w.linear("join", np.concatenate([x[i], *gated])))
    return after(w, graph, np.stack(ebar), messages, weights)


def mat(w: Weights, graph: Arrays, lambdas: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)) -> Layer:
    """Maziarka et al. 2020, arXiv:2002.08264; the edges hold g(D_ij) and A_ij.

    A^(h) = ( l_a softmax( Q_h K_h^T / sqrt(d_k) ) + l_d g(D) + l_g A ) V_h
    """
    _, q, k_s, v_s = before(w, graph, WITH)
    l_a, l_d, l_g = lambdas
    logits, values = empty(w, graph, v_s)
    for k, s, r, h in edges(graph, w):
        logits[k, h] = q[r, h] @ k_s[s, h] / np.sqrt(q.shape[-1])
        values[k, h] = v_s[s, h]
    of_attention = softmax_into_receivers(logits, graph.receiver)
    of_distance, of_adjacency = graph.e[:, :1], graph.e[:, 1:]
    weights = l_a * of_attention + l_d * of_distance + l_g * of_adjacency
    messages = weights[..., None] * values
    ebar = sum_into_receivers(messages, graph)
    return after(w, graph, w.linear("join.linear", ebar), messages, weights)


def rmat(w: Weights, graph: Arrays) -> Layer:
    """Maziarka et al. 2021, arXiv:2110.05841.

    e_ij = ( q_i . k_j + q_i . b^K_ij + b^K_ij . k_j ) / sqrt(d) + u . k_j + v . b^K_ij
    z_i  = sum_j softmax_j(e_ij) ( v_j + b^V_ij ),    b_ij a network of the edge with one hidden layer
    """
    _, q, k_s, v_s = before(w, graph, WITH)
    b_k = w.split_heads(w.product("phi_e.w_ke", leaky_relu(w.linear("phi_e.f_k.0", graph.e))))
    b_v = w.split_heads(w.product("phi_e.w_ve", leaky_relu(w.linear("phi_e.f_v.0", graph.e))))
    of_content, of_edges = w["phi_e.u"], w["phi_e.t"]
    logits, values = empty(w, graph, v_s)
    for k, s, r, h in edges(graph, w):
        x = q[r, h] @ k_s[s, h] + q[r, h] @ b_k[k, h] + b_k[k, h] @ k_s[s, h]
        logits[k, h] = x / np.sqrt(q.shape[-1]) + of_content[h] @ k_s[s, h] + of_edges[h] @ b_k[k, h]
        values[k, h] = v_s[s, h] + b_v[k, h]
    weights = softmax_into_receivers(logits, graph.receiver)
    messages = weights[..., None] * values
    ebar = sum_into_receivers(messages, graph)
    return after(w, graph, w.linear("join.linear", ebar), messages, weights)


def graphormer(w: Weights, graph: Arrays) -> Layer:
    """Ying et al. 2021, arXiv:2106.05234, equations 6 to 9; the edges hold b_phi(i,j) + c_ij of each head.

    A_ij = (h_i W_Q) (h_j W_K)^T / sqrt(d) + b_phi(i,j) + c_ij
    h' = MHA(LN(h)) + h;  FFN(LN(h')) + h'
    """
    _, q, k_s, v_s = before(w, graph, WITH)
    logits, values = empty(w, graph, v_s)
    for k, s, r, h in edges(graph, w):
        logits[k, h] = q[r, h] @ k_s[s, h] / np.sqrt(q.shape[-1]) + graph.e[k, h]
        values[k, h] = v_s[s, h]
    weights = softmax_into_receivers(logits, graph.receiver)
    messages = weights[..., None] * values
    ebar = sum_into_receivers(messages, graph)
    return after(w, graph, w.linear("join.linear", ebar), messages, weights)


def grit(w: Weights, graph: Arrays, eps: float = 1e-6) -> Layer:
    """Ma et al. 2023, arXiv:2305.17589, equations of section 3.2; the root smoothed at 0 by `eps`.

    ê_ij = relu( rho( (W_Q x_i + W_K x_j) * W_Ew e_ij ) + W_Eb e_ij ),    rho(x) = relu(x)^(1/2) - relu(-x)^(1/2)
    a_ij = softmax_j( W_A ê_ij );    x^_i = sum_j a_ij ( W_V x_j + W_Ev ê_ij )
    x_i <- x^_i * theta_1 + log(1 + d_i) x^_i * theta_2, and a map of the edges for the residual step of theirs
    """
    _, q, k_s, v_s = before(w, graph, (True, False, False))
    e = w.norm("phi_e.norm_e", graph.e)
    scale, shift = w.split_heads(w.linear("phi_e.w_ew", e)), w.split_heads(w.linear("phi_e.w_eb", e))
    logits, values = empty(w, graph, v_s)
    e_hat = np.zeros_like(values)
    for k, s, r, h in edges(graph, w):
        x = (q[r, h] + k_s[s, h]) * scale[k, h]
        root = np.sign(x) * np.abs(x) / np.sqrt(np.abs(x) + eps)
        e_hat[k, h] = np.maximum(root + shift[k, h], 0)
        logits[k, h] = w["phi_e.w_a"][h] @ e_hat[k, h]
        values[k, h] = v_s[s, h] + w["phi_e.w_ve"][h] @ e_hat[k, h]
    weights = softmax_into_receivers(logits, graph.receiver)
    messages = weights[..., None] * values
    x_hat = sum_into_receivers(messages, graph)
    scaled = x_hat * w["rho_ev.a"] + np.log(1 + graph.degree)[:, None] * x_hat * w["rho_ev.b"]
    m, heads, d = e_hat.shape
    e_new = graph.e + w.linear("edges.w", e_hat.reshape(m, heads * d))
    return after(w, graph, w.linear("join.linear", scaled), messages, weights, e_new)


REFERENCES: dict[str, Callable[[Weights, Arrays], Layer]] = {
    "molattn": molattn,
    "tensor-dot": tensor_dot,
    "gaan": gaan,
    "mat": mat,
    "rmat": rmat,
    "graphormer": graphormer,
    "grit": grit,
}
