"""JSON that holds the checksum of its own text, so that whatever is changed in it is noticed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_BLANK = "0" * 64
SEAL = "sha256"
"""The field with checksums by the names of files, its own among them."""


def sealed(content: Mapping[str, Any], name: str) -> bytes:
    """`content` as JSON for the file `name`, with, beside the checksums in its field `sha256`, one of itself.

    The checksum is of the whole text, with 64 zeros where it stands itself.
    """
    text = json.dumps({**content, SEAL: {**content.get(SEAL, {}), name: _BLANK}}, indent=1) + "\n"
    return text.replace(_BLANK, hashlib.sha256(text.encode()).hexdigest()).encode()


def unsealed(data: bytes, name: str) -> tuple[dict[str, Any], bool]:
    """The content of such a file, and whether it is as it was written; one without a checksum of itself is.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is no JSON of this kind.
    """
    content = json.loads(data.decode())
    found = content[SEAL].get(name)
    if found is None:
        return content, True
    blank = data.replace(found.encode(), _BLANK.encode())
    return content, hashlib.sha256(blank).hexdigest() == found
