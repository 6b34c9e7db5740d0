"""Gradient-boosted trees as arrays: evaluated with numpy alone, and stored without pickles.

LightGBM trains them and computes their SHAP values; see `molattn.training.trees` and `BoostedTrees.shap_values`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.errors import UsageError

LIGHTGBM_HINT = "pip install 'molattn[trees]'"

TREE_ARRAYS: dict[str, tuple[type, str]] = {
    "leaves": (np.int32, "leaves"),
    "feature": (np.int32, "feature"),
    "threshold": (np.float64, "feature"),
    "left": (np.int32, "feature"),
    "right": (np.int32, "feature"),
    "node_rows": (np.int32, "feature"),
    "value": (np.float64, "value"),
    "leaf_rows": (np.int32, "value"),
}
"""The arrays of `BoostedTrees` by name: the dtype of each, and the first array that has its length."""

CHUNK = 2**22
"""The largest number of molecules x trees that are evaluated at once, to bound the memory."""


@dataclass(frozen=True)
class BoostedTrees:
    """Boosted decision trees with J outputs, each the sum of the trees of that output.

    f_j(x) = sum over trees i with i mod J = j of v_i(leaf of x in tree i)

    Tree i has L_i leaves and L_i - 1 inner nodes, of which node 0 is the root. A row x goes from an inner node to its
    left child if x[feature] <= threshold, and otherwise to its right child. A child c >= 0 is an inner node, which has
    a larger index than its parent; a child c < 0 is the leaf -1 - c. The arrays hold the nodes of all trees, tree by
    tree; S = sum_i L_i and K = sum_i (L_i - 1).

    Attributes:
        num_features: F, the width of the rows.
        outputs: J.
        leaves: (trees,) int32, L_i, at least 1.
        feature: (K,) int32, from 0 to F - 1.
        threshold: (K,) float64.
        left, right: (K,) int32.
        node_rows: (K,) int32, the number of training rows that reached each inner node, for `shap_values`.
        value: (S,) float64, v_i of each leaf.
        leaf_rows: (S,) int32, the number of training rows in each leaf.
    """

    num_features: int
    outputs: int
    leaves: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    node_rows: np.ndarray
    value: np.ndarray
    leaf_rows: np.ndarray

    @classmethod
    def from_lightgbm(cls, text: str) -> "BoostedTrees":
        """Convert a model in LightGBM's text format, as `Booster.model_to_string` returns it.

        Raises:
            ValueError: it has categorical splits or linear leaves, which are not supported.
        """
        header, *blocks = text.split("\nTree=")
        settings = _parse_lines(header)
        trees = [_parse_lines(block.partition("\n\n")[0].partition("\n")[2]) for block in blocks]
        if any(tree["num_cat"] != "0" or tree["is_linear"] != "0" for tree in trees):
            raise ValueError("trees with categorical splits or linear leaves are not supported")

        def column(name: str, dtype: type, default: str = "") -> np.ndarray:
            parts = [np.array((tree.get(name) or default).split(), dtype=dtype) for tree in trees]
            return np.concatenate(parts) if parts else np.empty(0, dtype)

        return cls(
            num_features=int(settings["max_feature_idx"]) + 1,
            outputs=int(settings["num_tree_per_iteration"]),
            leaves=column("num_leaves", np.int32),
            feature=column("split_feature", np.int32),
            threshold=column("threshold", np.float64),
            left=column("left_child", np.int32),
            right=column("right_child", np.int32),
            node_rows=column("internal_count", np.int32),
            value=column("leaf_value", np.float64),
            leaf_rows=column("leaf_count", np.int32, "0"),  # LightGBM 4.5 writes none of a tree without splits
        )

    @property
    def num_trees(self) -> int:
        """The number of trees."""
        return len(self.leaves)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """f(x) of each row, (n, F) -> (n, J) float64."""
        offsets, leaf_offsets = _offsets(self.leaves - 1), _offsets(self.leaves)
        result = np.zeros((len(x), self.outputs))
        step = max(1, CHUNK // max(1, self.num_trees))
        for start in range(0, len(x), step):
            rows = x[start : start + step]
            # A tree of one leaf has no inner node: its rows are at the leaf -1 from the start.
            node = np.broadcast_to(np.where(self.leaves > 1, 0, -1), (len(rows), self.num_trees)).copy()
            while (inner := node >= 0).any():
                r, t = np.nonzero(inner)
                k = offsets[t] + node[r, t]
                goes_left = rows[r, self.feature[k]] <= self.threshold[k]
                node[r, t] = np.where(goes_left, self.left[k], self.right[k])
            values = self.value[leaf_offsets + (-1 - node)]
            for j in range(self.outputs):
                result[start : start + step, j] = values[:, j :: self.outputs].sum(1)
        return result

    def shap_values(self, x: np.ndarray) -> np.ndarray:
        """The contribution of each feature to f_j(x), (n, F) -> (n, J, F + 1), in the last column the training mean.

        f_j(x) = sum_f shap_jf(x) + mean_j

        Raises:
            UsageError: LightGBM, which computes them, is not installed.

        Source: TreeSHAP, Lundberg et al. (2020), Nat. Mach. Intell. 2, 56, doi:10.1038/s42256-019-0138-9.
        """
        booster = import_lightgbm("explain boosted trees").Booster(model_str=self._to_lightgbm())
        contributions = booster.predict(x, pred_contrib=True)
        return np.asarray(contributions).reshape(len(x), self.outputs, self.num_features + 1)

    def check(self) -> None:
        """Raise ValueError unless the arrays are trees: every node but a root is the child of one earlier node."""
        leaves = self.leaves.astype(np.int64)
        if self.outputs < 1 or (leaves < 1).any() or len(leaves) % self.outputs:
            raise ValueError("the trees of the outputs differ in number, or a tree has no leaf")
        inner = leaves - 1
        if {len(a) for a in (self.feature, self.threshold, self.left, self.right, self.node_rows)} != {inner.sum()}:
            raise ValueError("the arrays of inner nodes differ in length")
        if {len(self.value), len(self.leaf_rows)} != {leaves.sum()}:
            raise ValueError("the arrays of leaves differ in length")
        if ((self.feature < 0) | (self.feature >= self.num_features)).any():
            raise ValueError(f"a tree reads a feature outside 0 to {self.num_features - 1}")
        if not (np.isfinite(self.value).all() and np.isfinite(self.threshold).all()):
            raise ValueError("a threshold or a value of a tree is not finite")
        if (self.node_rows < 1).any() or (self.leaf_rows < 0).any():
            raise ValueError("a node of a tree has a negative number of rows")
        tree = np.repeat(np.arange(len(leaves)), inner)
        index = np.arange(inner.sum()) - _offsets(inner)[tree]
        children, child_tree = np.concatenate([self.left, self.right]), np.concatenate([tree, tree])
        is_inner = children >= 0
        if (children[is_inner] <= np.concatenate([index, index])[is_inner]).any():
            raise ValueError("a child of an inner node comes before it")
        # As one number each: inner nodes 1 to L - 2 and leaves 0 to L - 1 of every tree must appear exactly once.
        if (children >= inner[child_tree]).any() or (children < -leaves[child_tree]).any():
            raise ValueError("a child of an inner node does not exist")
        node_ids = np.where(
            is_inner, _offsets(inner)[child_tree] + children, inner.sum() + _offsets(leaves)[child_tree] - 1 - children
        )
        if len(np.unique(node_ids)) != len(node_ids) or len(node_ids) != 2 * inner.sum():
            raise ValueError("a node is the child of two others")

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, as they are stored."""
        return {name: getattr(self, name) for name in TREE_ARRAYS}

    def _to_lightgbm(self) -> str:
        """The model in LightGBM's text format, from the numbers in the arrays alone."""
        names = " ".join(f"f{i}" for i in range(self.num_features))
        header = (
            f"tree\nversion=v4\nnum_class={self.outputs}\nnum_tree_per_iteration={self.outputs}\nlabel_index=0\n"
            f"max_feature_idx={self.num_features - 1}\nobjective=regression\nfeature_names={names}\n"
            f"feature_infos={' '.join(['none'] * self.num_features)}\n"
        )
        offsets, leaf_offsets = _offsets(self.leaves - 1), _offsets(self.leaves)
        blocks = []
        for i, count in enumerate(self.leaves.tolist()):
            inner, leaf = slice(offsets[i], offsets[i] + count - 1), slice(leaf_offsets[i], leaf_offsets[i] + count)
            zeros = [0] * (count - 1)
            lines: dict[str, Sequence[Any]] = {
                "num_leaves": [count],
                "num_cat": [0],
                "split_feature": self.feature[inner].tolist(),
                "split_gain": zeros,
                "threshold": self.threshold[inner].tolist(),
                # Numerical splits, without missing values.
                "decision_type": zeros,
                "left_child": self.left[inner].tolist(),
                "right_child": self.right[inner].tolist(),
                "leaf_value": self.value[leaf].tolist(),
                "leaf_weight": self.leaf_rows[leaf].tolist(),
                "leaf_count": self.leaf_rows[leaf].tolist(),
                "internal_value": zeros,
                "internal_weight": self.node_rows[inner].tolist(),
                "internal_count": self.node_rows[inner].tolist(),
                "is_linear": [0],
                "shrinkage": [1],
            }
            blocks.append(f"Tree={i}\n" + "".join(f"{k}={' '.join(map(repr, v))}\n" for k, v in lines.items()) + "\n\n")
        sizes = " ".join(str(len(block)) for block in blocks)
        return f"{header}tree_sizes={sizes}\n\n{''.join(blocks)}end of trees\n"


def import_lightgbm(purpose: str) -> Any:
    """The package lightgbm; raises UsageError, which says how to install it, if there is none."""
    try:
        import lightgbm
    except ImportError as error:
        raise UsageError(f"lightgbm is needed to {purpose}: {LIGHTGBM_HINT}") from error
    return lightgbm


def _offsets(counts: np.ndarray) -> np.ndarray:
    """(n,) the sum of the counts before each."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)[:-1]]).astype(np.int64) if len(counts) else counts


def _parse_lines(text: str) -> Mapping[str, str]:
    """The lines NAME=VALUE of a text."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
