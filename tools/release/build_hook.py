"""Adds libraries of the C files to a wheel, built for the microarchitecture levels of many processors.

    MOLATTN_WHEEL=compiled python -m build --wheel

Without the variable the wheel is for any system, and has only the sources. hatchling calls this file, which
`[tool.hatch.build.targets.wheel.hooks.custom]` in pyproject.toml names. CC is the command of the compiler; gcc by
default.
"""

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # pyright: ignore[reportMissingImports]

WHEEL_VARIABLE = "MOLATTN_WHEEL"
"""The environment variable that is "compiled" for a wheel with libraries, "pure" or empty for one without."""
FOLDER_IN_WHEEL = "molattn/kernels/libraries"


class BuildHook(BuildHookInterface):
    """Adds the libraries and the tag to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds a wheel; nothing for an editable one."""
        chosen = os.environ.get(WHEEL_VARIABLE, "").strip()
        if chosen not in ("", "pure", "compiled"):
            raise ValueError(f"{WHEEL_VARIABLE} is {chosen!r}: compiled is a wheel with libraries, pure one without")
        if version == "editable" or chosen != "compiled":
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from libraries import build_libraries, platform_tag

        self._folder = tempfile.TemporaryDirectory(prefix="molattn-shipped-")
        built = build_libraries(Path(self._folder.name), shlex.split(os.environ.get("CC", "").strip() or "gcc"))
        build_data["force_include"][self._folder.name] = FOLDER_IN_WHEEL
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(built)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called by hatchling when the wheel has been written."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
