"""The lowest versions that pyproject.toml allows, as a list for pip: `pip install -c lowest.txt -e '.[test]'`.

    python .ci/lowest.py [--except torch] > lowest.txt

The packages of --except have the version in constraints.txt: for example, CPU builds of old versions of torch are not
available everywhere. The versions of further dependencies are chosen by pip.
"""

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("test", "keras", "notebook", "ray", "tune", "widget")
"""The extras whose requirements are included; the others are development tools."""


def lowest(requirements: list[str]) -> dict[str, str]:
    """The version of each package: the highest of its lower bounds."""
    found: dict[str, str] = {}
    for requirement in requirements:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[\w,]+\])?>=([0-9.]+)", requirement)
        if match is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} must have a lower bound and nothing else")
        name, version = match.groups()
        found[name] = max(found.get(name, version), version, key=lambda v: [int(part) for part in v.split(".")])
    return found


def pins() -> dict[str, str]:
    """The versions in constraints.txt."""
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines())
    return {name: version for name, equals, version in lines if equals}


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--except", dest="excepted", nargs="*", default=[], metavar="PACKAGE")
    excepted = parser.parse_args().excepted
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    versions = lowest([*project["dependencies"], *(r for extra in EXTRAS for r in extras[extra])])
    versions |= {name: pins()[name] for name in excepted}
    print("\n".join(f"{name}=={version}" for name, version in sorted(versions.items())))


if __name__ == "__main__":
    main()
