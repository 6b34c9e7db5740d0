"""Known vulnerabilities of the versions in constraints.txt, as pip-audit finds them: `python .ci/audit.py`.

It fails where there is one. Where the service that knows them cannot be asked, of all versions or of some, it says so
and does not fail: what is not known is neither good nor bad.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def verdict(report: dict[str, Any] | None) -> tuple[str, int]:
    """What to say of pip-audit's report, None for none at all, and the exit code."""
    packages = [] if report is None else report["dependencies"]
    asked = [package for package in packages if "skip_reason" not in package]
    found = [
        f"{package['name']} {package['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'none'}"
        for package in asked
        for known in package["vulns"]
    ]
    if found:
        return "known vulnerabilities:\n" + "\n".join(found), 1
    if not asked:
        return "NOT AUDITED: the service that knows vulnerabilities could not be asked", 0
    if len(asked) < len(packages):
        names = ", ".join(package["name"] for package in packages if "skip_reason" in package)
        return f"no known vulnerability in {len(asked)} versions; NOT AUDITED: {names}", 0
    return f"no known vulnerability in {len(asked)} versions", 0


def main() -> None:
    """See above."""
    options = [
        "-r",
        str(ROOT / "constraints.txt"),
        "--no-deps",
        "--disable-pip",
        "-f",
        "json",
        "--progress-spinner",
        "off",
    ]
    done = subprocess.run([sys.executable, "-m", "pip_audit", *options], capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        print(done.stderr[-2000:])
        report = None
    text, code = verdict(report)
    print(text)
    sys.exit(code)


if __name__ == "__main__":
    main()
