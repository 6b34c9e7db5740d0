"""A picture in two formats: SVG for the screen and for print, PNG for everything else."""

import base64
from dataclasses import dataclass
from pathlib import Path

from molattn.data.files import write_bytes
from molattn.errors import UsageError, shown


@dataclass(frozen=True, repr=False)
class Picture:
    """One picture, twice; Jupyter shows it where it is the value of a cell.

    Attributes:
        svg: an SVG document.
        png: the same as the bytes of a PNG file.
    """

    svg: str
    png: bytes

    def save(self, path: str | Path) -> None:
        """Write the picture to `path`, whole or not at all; the suffix, .svg or .png, says in which format.

        Raises:
            UsageError: another suffix, or a folder that does not exist.
        """
        path = Path(path)
        content = {".svg": self.svg.encode("utf-8"), ".png": self.png}.get(path.suffix.lower())
        if content is None:
            raise UsageError(f"a picture is saved as .svg or .png, not as {shown(path.name)}")
        if not path.parent.is_dir():
            raise UsageError(f"{shown(str(path.parent))} is not a folder: make it, or save the picture elsewhere")
        write_bytes(path, content)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """What Jupyter shows; it picks the format."""
        return {
            "image/svg+xml": self.svg,
            "image/png": base64.b64encode(self.png).decode("ascii"),
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        return f"Picture(svg: {len(self.svg):,} characters, png: {len(self.png):,} bytes)"
