"""The processor of this machine, and the instruction sets that a library needs."""

import platform
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_MACROS = re.compile(r"#define __(AMX\w*?|AVX\w*?|FMA4?|F16C|BMI2?|SSE4_[12]|SSSE3|POPCNT|MOVBE|VAES|GFNI)__ 1")
"""The macros of the x86 instruction sets that a compiler may use."""
_LINUX_NAMES = {"bmi": "bmi1"}
"""Linux's names of these instruction sets in /proc/cpuinfo, where they differ by more than underscores."""


@cache
def cpu_description() -> str:
    """The system, the machine and its instruction sets, as the system names them."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return " ".join((platform.system(), platform.machine(), flags))


def instruction_sets(macros: str) -> list[str]:
    """The x86 instruction sets that a compiler may use, as in /proc/cpuinfo, without underscores.

    Args:
        macros: what the compiler prints with -dM -E.
    """
    names: list[str] = [name.lower().replace("_", "") for name in _MACROS.findall(macros)]
    return sorted({_LINUX_NAMES.get(name, name) for name in names})


def missing_instruction_set(wanted: Iterable[str]) -> str:
    """The first of these instruction sets that this processor is not known to have; "" if there is none.

    Args:
        wanted: names as in /proc/cpuinfo, without underscores.
    """
    available = {flag.replace("_", "") for flag in cpu_description().split()}
    return next((name for name in wanted if name not in available), "")
