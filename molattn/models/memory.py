"""What an error says that means: no memory is left."""

import torch

# Of torch's allocator for the CPU, on Linux and macOS and on Windows, and of C++ elsewhere: they have no class.
_SAID = ("can't allocate memory", "not enough memory", "std::bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, numpy, torch or compiled attention asked for memory that was not to be had.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("can't allocate memory"))
    (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SAID)
