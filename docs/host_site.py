"""Put the site and those of the releases side by side, to be hosted: `python docs/host_site.py`.

build/hosted/index.html     leads to the newest release, or to main where there is none
build/hosted/versions.json  ["main", "v0.2.0", "v0.1.0"]: what the menu of the pages offers
build/hosted/main/          build/site, which docs/build_site.py has built
build/hosted/v0.2.0/        the site of a tag, built here with the tag's own code and constraints.txt

python docs/host_site.py [--releases N]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE, HOSTED = ROOT / "build" / "site", ROOT / "build" / "hosted"
INDEX = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={version}/README.html">
<title>molattn</title>
<p><a href="{version}/README.html">The documentation of molattn</a></p>
</html>
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command that has to succeed."""
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def releases(number: int) -> list[str]:
    """The newest tags that can build a site, the newest first."""
    tags = run("git", "tag", "--list", "v*", "--sort=-version:refname").split()
    return [tag for tag in tags if run("git", "ls-tree", tag, "docs/build_site.py")][:number]


def build_release(tag: str) -> None:
    """Build the site of a tag, in a worktree and a virtual environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        run("git", "worktree", "add", "--detach", tree, tag)
        try:
            run(sys.executable, "-m", "venv", tree / ".venv")
            python = next(path for path in tree.glob(".venv/*/python*") if path.stem == "python")
            run(python, "-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", ".[docs]", cwd=tree)
            run(python, "docs/build_site.py", cwd=tree)
            shutil.copytree(tree / "build" / "site", HOSTED / tag)
        finally:
            run("git", "worktree", "remove", "--force", tree)


def main() -> None:
    """Make the folder anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=5, metavar="N", help="how many, the newest [default: 5]")
    tags = releases(parser.parse_args().releases)
    if not (SITE / "objects.inv").is_file():
        sys.exit("there is no site in build/site: python docs/build_site.py builds it")
    shutil.rmtree(HOSTED, ignore_errors=True)
    shutil.copytree(SITE, HOSTED / "main")
    for tag in tags:
        build_release(tag)
    (HOSTED / "versions.json").write_text(json.dumps(["main", *tags]), encoding="utf-8")
    (HOSTED / "index.html").write_text(INDEX.format(version=[*tags, "main"][0]), encoding="utf-8")
    print(f"{HOSTED.relative_to(ROOT)}: {', '.join(['main', *tags])}")


if __name__ == "__main__":
    main()
