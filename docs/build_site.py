"""Build the documentation site in build/site and check it: `python docs/build_site.py`.

    python docs/build_site.py [--execute]

It needs the extra `docs`. Every warning is an error. The notebooks are committed without outputs; `--execute` runs
them, as many at once as there are processors, with few steps if MOLATTN_FAST=1 is set.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor

ROOT = Path(__file__).parents[1]
SITE, DOCTREES = ROOT / "build" / "site", ROOT / "build" / "doctrees"
EXECUTED = ROOT / "build" / "notebooks"


def run_notebooks(timeout_s: int = 1200) -> None:
    """Run the notebooks whose outputs are not in the cache yet, which Sphinx reads.

    One that fails is not cached: Sphinx runs it again, and reports the error with its place.
    """
    cache = get_cache(EXECUTED)
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cache.add_nb_to_project(str(notebook))
    load_executor("local-parallel", cache).run_and_cache(timeout=timeout_s)


def main() -> None:
    """Build, check, and say where the site is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--execute", action="store_true", help="run the notebooks")
    environment = dict(os.environ)
    if parser.parse_args().execute:
        environment["MOLATTN_DOCS_EXECUTE"] = "1"
        os.environ["OMP_NUM_THREADS"] = "1"  # of each notebook
        run_notebooks()
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
