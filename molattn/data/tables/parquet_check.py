"""Whether the rows of a Parquet file fit into the memory, found out by a process of its own, which may have little.

    python parquet_check.py PATH ROWS MAX_CHUNK_BYTES CELL LIMIT

A few bytes of Parquet can unpack to gigabytes: a page that compresses well, one long value that a dictionary repeats, a
list of a billion zeros. Nothing in the file that says how large it is need be true, and whoever asks Arrow for such a
row has lost. So the file is read through here first, `ROWS` rows at a time, with `LIMIT` more bytes of memory than an
empty file takes (on Linux; elsewhere without that limit, and the rows alone are weighed); a file that makes Arrow crash
ends this process and no other. One line of JSON says how it went.

Imported by nobody, and importing nothing of molattn: it starts in a fraction of a second.
"""

import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    """See above."""
    path, (rows, heaviest, cell, limit) = sys.argv[1], map(int, sys.argv[2:])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if sys.platform == "linux":
        limit_memory(limit)
    said: dict[str, Any] = {"rows": 0}
    try:
        with pq.ParquetFile(path, memory_map=False, buffer_size=2**16) as file:
            said["open"] = True
            for batch in file.iter_batches(rows, use_threads=False):
                if sum(text_bytes(column, cell) for column in batch.columns) > heaviest:
                    said["heavy"] = True
                    break
                said["rows"] += batch.num_rows
    except MemoryError:
        said["unpacks"] = True
    except (pa.ArrowException, OSError, ValueError) as error:
        # Arrow says in words alone that there was no memory for what it unpacks.
        said["damaged"] = str(error).split("\n")[0].rstrip(".")
    print(json.dumps(said))


def limit_memory(more: int) -> None:
    """This process may take so many bytes more than it has; an allocation beyond that fails."""
    import resource

    with open("/proc/self/status", encoding="ascii") as status:
        used = next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + more, used * 1024 + more))


def text_bytes(array: Any, cell: int) -> int:
    """Bytes that the values take up as text: those of their characters, and `cell` for each, however it is stored."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Arrow before 24 cannot tell the size of views.
        return text_bytes(array.cast(pa.large_binary()), cell)
    if pa.types.is_dictionary(kind):
        return text_bytes(array.dictionary_decode(), cell)
    if pa.types.is_struct(kind):
        return cell * len(array) + sum(text_bytes(field, cell) for field in array.flatten())
    if pa.types.is_map(kind):
        return cell * len(array) + text_bytes(array.keys, cell) + text_bytes(array.items, cell)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return cell * len(array) + text_bytes(array.flatten(), cell)
    return cell * len(array) + array.nbytes


if __name__ == "__main__":
    main()
