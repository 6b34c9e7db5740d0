"""A categorical feature: its name and the labels of its codes."""

from dataclasses import dataclass, field

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Feature:
    """One categorical feature; its codes are 0 .. size - 1.

    Raises ValueError if two codes have the same label, or if the codes do not fit into one byte.
    """

    name: str
    """Its name, also in tables and legends."""

    labels: tuple[str, ...]
    """`labels[code]` is the label of a code."""

    index: dict[str, int] = field(init=False, repr=False, compare=False)
    """`index[label]` is the code of a label."""

    def __post_init__(self):
        index = {label: code for code, label in enumerate(self.labels)}
        if not 0 < len(index) == len(self.labels) <= 256:
            raise ValueError(f"feature {self.name!r}: labels must be 1 to 256 different strings")
        object.__setattr__(self, "index", index)

    @property
    def size(self) -> int:
        """Number of codes, the `num_embeddings` of an embedding."""
        return len(self.labels)
