"""What one feature is: a name and the meaning of each of its codes."""

from dataclasses import dataclass, field

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Feature:
    """One categorical feature; its codes are 0 .. size - 1.

    Errors: ValueError when two codes mean the same, or when the codes do not fit into one byte.
    """

    name: str
    """Also the name of its column in a table or a legend."""

    labels: tuple[str, ...]
    """The meaning of every code: `labels[code]`."""

    index: dict[str, int] = field(init=False, repr=False, compare=False)
    """The way back: `index[label]` is the code."""

    def __post_init__(self):
        index = {label: code for code, label in enumerate(self.labels)}
        if not 0 < len(index) == len(self.labels) <= 256:
            raise ValueError(f"feature {self.name!r}: labels must be 1 to 256 different strings")
        object.__setattr__(self, "index", index)

    @property
    def size(self) -> int:
        """How many codes there are, which is what an embedding table needs."""
        return len(self.labels)
