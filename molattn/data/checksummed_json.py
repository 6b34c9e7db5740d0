"""JSON that holds the checksum of its own text, so that any change to it is detected."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from molattn.data.schema import ValidationError, parse_json

_ZEROS = "0" * 64
CHECKSUMS = "sha256"
"""The field that maps names of files to their checksums; the file itself is among them."""


def dumps_checksummed(content: Mapping[str, Any], name: str) -> bytes:
    """`content` as JSON for the file `name`, with its own checksum added to those in its field `sha256`.

    The checksum is that of the whole text with 64 zeros in the place of the checksum itself.
    """
    text = json.dumps({**content, CHECKSUMS: {**content.get(CHECKSUMS, {}), name: _ZEROS}}, indent=1) + "\n"
    return text.replace(_entry(name, _ZEROS), _entry(name, hashlib.sha256(text.encode()).hexdigest())).encode()


def _entry(name: str, checksum: str) -> str:
    """The text of the entry; it has unescaped quotation marks, so no string in the JSON can contain it."""
    return f"{json.dumps(name)}: {json.dumps(checksum)}"


def loads_checksummed(data: bytes, name: str) -> tuple[dict[str, Any], bool]:
    """The content of the file `name`, and whether it is unchanged; without its own checksum it counts as unchanged.

    Raises:
        ValueError: it is not strict JSON with a field `sha256` of checksums.
    """
    content = parse_json(data)
    checksums = content.get(CHECKSUMS) if isinstance(content, dict) else None
    if not isinstance(checksums, dict):
        raise ValidationError(f"it has no {CHECKSUMS} with checksums")
    found = checksums.get(name)
    if found is None:
        return content, True
    if not isinstance(found, str) or len(found) != len(_ZEROS):
        return content, False
    zeroed = data.replace(_entry(name, found).encode(), _entry(name, _ZEROS).encode())
    return content, hashlib.sha256(zeroed).hexdigest() == found
