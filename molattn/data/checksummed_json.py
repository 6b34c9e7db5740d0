"""JSON that holds the checksum of its own text, so that whatever is changed in it is noticed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from molattn.data.schema import Misfit, strict_json

_BLANK = "0" * 64
SEAL = "sha256"
"""The field with checksums by the names of files, its own among them."""


def sealed(content: Mapping[str, Any], name: str) -> bytes:
    """`content` as JSON for the file `name`, with, beside the checksums in its field `sha256`, one of itself.

    The checksum is of the whole text, with 64 zeros where it stands itself.
    """
    text = json.dumps({**content, SEAL: {**content.get(SEAL, {}), name: _BLANK}}, indent=1) + "\n"
    return text.replace(_entry(name, _BLANK), _entry(name, hashlib.sha256(text.encode()).hexdigest())).encode()


def _entry(name: str, checksum: str) -> str:
    """Where the checksum stands; no text has such quotation marks in it, whatever zeros."""
    return f"{json.dumps(name)}: {json.dumps(checksum)}"


def unsealed(data: bytes, name: str) -> tuple[dict[str, Any], bool]:
    """The content of such a file, and whether it is as it was written; one without a checksum of itself is.

    Raises:
        ValueError: it is no JSON of this kind.
    """
    content = strict_json(data)
    seal = content.get(SEAL) if isinstance(content, dict) else None
    if not isinstance(seal, dict):
        raise Misfit(f"it has no {SEAL} with checksums")
    found = seal.get(name)
    if found is None:
        return content, True
    if not isinstance(found, str) or len(found) != len(_BLANK):
        return content, False
    blank = data.replace(_entry(name, found).encode(), _entry(name, _BLANK).encode())
    return content, hashlib.sha256(blank).hexdigest() == found
