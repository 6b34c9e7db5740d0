"""What a finished run left in JSON, read again by the runs beside it."""

from pathlib import Path
from typing import Any

from molattn.data.schema import InstanceOf, PartialRecord, Schema, String, parse_json
from molattn.errors import InputError

METRICS: Schema = PartialRecord({side: InstanceOf(dict, "an object with targets") for side in ("train", "val", "test")})
ENVIRONMENT: Schema = PartialRecord({"data_sha256": String(64)})


def read_kept(path: Path, kind: Schema) -> dict[str, Any]:
    """The content of a file of a run, all of it, held to what `kind` says.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        content = parse_json(path.read_bytes())
        kind.validate(content, "")
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"{path} is damaged, it cannot be read ({why}): remove {path.parent}, and --resume trains it again"
        ) from error
    return content
