"""What a finished run left in JSON, read again by the runs beside it."""

from pathlib import Path
from typing import Any

from molattn.data.schema import Anything, Kind, Some, Text, strict_json
from molattn.errors import InputError

METRICS: Kind = Some({side: Anything(dict, "an object with targets") for side in ("train", "val", "test")})
ENVIRONMENT: Kind = Some({"data_sha256": Text(64)})


def read_kept(path: Path, kind: Kind) -> dict[str, Any]:
    """The content of a file of a run, all of it, held to what `kind` says.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        content = strict_json(path.read_bytes())
        kind.read(content, "")
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"{path} is damaged, it cannot be read ({why}): remove {path.parent}, and --resume trains it again"
        ) from error
    return content
