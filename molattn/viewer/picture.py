"""A picture in two formats, SVG and PNG."""

import base64
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from molattn.data.files import write_bytes
from molattn.errors import UsageError, short_repr


class Picture:
    """A picture as SVG and PNG; Jupyter displays it.

    Two pictures are equal if both formats are equal.

    Args:
        svg, png: the picture in that format, or a function that draws it at its first use.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from molattn.viewer import matrix
    >>> picture = matrix([[0.9, 0.1], [0.4, 0.6]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture.save(f"{folder}/weights.png")
    ...     Path(folder, "weights.png").read_bytes() == picture.png
    True
    """

    def __init__(self, svg: str | Callable[[], str], png: bytes | Callable[[], bytes]):
        self._svg, self._png = svg, png

    @cached_property
    def svg(self) -> str:
        """An SVG document."""
        return self._svg if isinstance(self._svg, str) else self._svg()

    @cached_property
    def png(self) -> bytes:
        """The bytes of a PNG file."""
        return self._png if isinstance(self._png, bytes) else self._png()

    def save(self, path: str | Path) -> None:
        """Write the picture atomically to `path`, in the format of its suffix, .svg or .png.

        Args:
            path: the file; one that exists is replaced.

        Raises:
            UsageError: another suffix, or a folder that does not exist.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in (".svg", ".png"):
            raise UsageError(f"a picture is saved as .svg or .png, not as {short_repr(path.name)}")
        if not path.parent.is_dir():
            raise UsageError(f"{short_repr(str(path.parent))} is not a folder: create it first")
        write_bytes(path, self.png if suffix == ".png" else self.svg.encode("utf-8"))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """The picture by MIME type; Jupyter displays one of the formats."""
        return {
            "image/svg+xml": self.svg,
            "image/png": base64.b64encode(self.png).decode("ascii"),
            "text/plain": repr(self),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and (self.svg, self.png) == (other.svg, other.png)

    def __hash__(self) -> int:
        return hash((self.svg, self.png))

    def __repr__(self) -> str:
        return f"Picture(svg: {len(self.svg):,} characters, png: {len(self.png):,} bytes)"
