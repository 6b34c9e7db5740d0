"""Files of tensors for tests of their readers."""

import json

import torch
from safetensors.torch import save
from torch import Tensor


def saved(tensors: dict[str, Tensor]) -> bytes:
    """Like `save` of safetensors, but also with complex64, which versions before 0.7 do not write."""
    complexes = [name for name, x in tensors.items() if x.dtype == torch.complex64]
    data = save({name: x.view(torch.int64) if name in complexes else x for name, x in tensors.items()})
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    for name in complexes:
        header[name]["dtype"] = "C64"
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[end:] if complexes else data
