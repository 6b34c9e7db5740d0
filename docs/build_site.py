"""Build the documentation site in build/site and check it: `python docs/build_site.py`.

    python docs/build_site.py [--execute]

It needs the extra `docs`. Every warning is an error. The notebooks are committed without outputs; `--execute` runs
them, with few steps if MOLATTN_FAST=1 is set.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE, DOCTREES = ROOT / "build" / "site", ROOT / "build" / "doctrees"


def main() -> None:
    """Build, check, and say where the site is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--execute", action="store_true", help="run the notebooks")
    environment = dict(os.environ)
    if parser.parse_args().execute:
        environment["MOLATTN_DOCS_EXECUTE"] = "1"
    # Sphinx does not renew the pages of the code when the pages that they lead to change.
    shutil.rmtree(SITE / "_modules", ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(ROOT / "docs"), "-d", str(DOCTREES)]
    for command in (
        [sys.executable, "-m", "sphinx", *options, str(ROOT), str(SITE)],
        [sys.executable, str(ROOT / "docs" / "check_site.py"), str(SITE)],
    ):
        if code := subprocess.run(command, env=environment, check=False).returncode:
            sys.exit(code)
    print(f"Open {SITE.relative_to(ROOT) / 'index.html'}")


if __name__ == "__main__":
    main()
