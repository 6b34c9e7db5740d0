"""Check whether the rows of a Parquet file fit into memory, in a separate process with limited memory.

    python parquet_check.py PATH ROWS MAX_BYTES CELL_BYTES MEMORY_LIMIT

A few bytes of Parquet can unpack to gigabytes: a page that compresses well, one long value that a dictionary repeats, a
list of a billion zeros. The sizes that the file itself states may be false, and Arrow allocates the memory of a row at
once. So the file is first read here, `ROWS` rows at a time, in a process that may allocate `MEMORY_LIMIT` more bytes
(on Linux; elsewhere only the size of the rows is checked). A file that makes Arrow crash ends only this process. The
result is printed as one line of JSON.

No module imports this script, and it imports nothing from molattn, to start in a fraction of a second.
"""

import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    """Read the file and print the result, such as {"rows": 2048, "opened": true, "error": "..."}."""
    path, (rows, max_bytes, cell, limit) = sys.argv[1], map(int, sys.argv[2:])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if sys.platform == "linux":
        limit_memory(limit)
    result: dict[str, Any] = {"rows": 0}
    try:
        with pq.ParquetFile(path, memory_map=False, buffer_size=2**16) as file:
            result["opened"] = True
            for batch in file.iter_batches(rows, use_threads=False):
                if sum(text_bytes(column, cell) for column in batch.columns) > max_bytes:
                    result["too_large"] = True
                    break
                result["rows"] += batch.num_rows
    except MemoryError:
        result["out_of_memory"] = True
    except (pa.ArrowException, OSError, ValueError) as error:
        # Some errors of Arrow also mean that it is out of memory, but only their messages say so.
        result["error"] = str(error).split("\n")[0].rstrip(".")
    print(json.dumps(result))


def limit_memory(max_bytes: int) -> None:
    """Limit the memory of this process to `max_bytes` more than it uses now; larger allocations fail."""
    import resource

    with open("/proc/self/status", encoding="ascii") as status:
        used = next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + max_bytes, used * 1024 + max_bytes))


def text_bytes(array: Any, cell: int) -> int:
    """Bytes of the values as text: those of their characters, and `cell` for each value, however they are stored."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Arrow before 24 cannot compute the size of views.
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
