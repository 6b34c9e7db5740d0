"""Known vulnerabilities of the versions in constraints.txt, found by pip-audit: `python .ci/audit.py`.

The exit code is 1 if there is one. Versions for which the vulnerability service gives no answer are reported as not
audited, and do not change the exit code.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def summarize(report: dict[str, Any] | None) -> tuple[str, int]:
    """The message for the report of pip-audit, None if there is none, and the exit code."""
    packages = [] if report is None else report["dependencies"]
    audited = [package for package in packages if "skip_reason" not in package]
    found = [
        f"{package['name']} {package['version']}: {known['id']}, fixed in {', '.join(known['fix_versions']) or 'none'}"
        for package in audited
        for known in package["vulns"]
    ]
    if found:
        return "known vulnerabilities:\n" + "\n".join(found), 1
    if not audited:
        return "NOT AUDITED: the service of known vulnerabilities is not available", 0
    if len(audited) < len(packages):
        names = ", ".join(package["name"] for package in packages if "skip_reason" in package)
        return f"no known vulnerability in {len(audited)} versions; NOT AUDITED: {names}", 0
    return f"no known vulnerability in {len(audited)} versions", 0


def main() -> None:
    """Audit the versions, and print the result."""
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
    completed = subprocess.run(
        [sys.executable, "-m", "pip_audit", *options], capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(completed.stdout)
    except ValueError:
        print(completed.stderr[-2000:])
        report = None
    text, code = summarize(report)
    print(text)
    sys.exit(code)


if __name__ == "__main__":
    main()
