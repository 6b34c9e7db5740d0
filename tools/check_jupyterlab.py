"""The page as a widget in JupyterLab: keys pressed on it do not edit the notebook, and its pinned atom reaches Python.

    pip install jupyterlab && python tools/check_jupyterlab.py

Needs the extra `test` and a Chromium of the system. It starts JupyterLab in an empty folder, with a notebook of three
cells and random weights. JupyterLab takes keys on an element of an output as commands, such as `x`, which cuts
the cell, unless the element says that it wants them.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from browser import chromium

CELLS = (
    "import numpy as np\n"
    "from molattn.explain import AttentionMap\n"
    "from molattn.viewer import AttentionWidget\n"
    "weights = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 4)).astype(np.float32)\n"
    'widget = AttentionWidget(AttentionMap("CC(=O)O", ("C", "C", "O", "O"), weights, {"y": 1.0}, {"y": ""}))\n'
    "widget",
    "print('pinned', widget.pinned)",
    "print('the last cell')",
)
COMMANDS = "abcdxvyzmr"
"""Keys that are commands of JupyterLab outside of a text."""
CONTROLS = (".hit", "canvas[role=application]", "[role=radio]", "input[type=range]", "input[type=checkbox]", "summary")


def write_notebook(path: Path) -> None:
    """The notebook with the cells."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, path)


def check(tab: Page, address: str) -> None:
    """Run the notebook, press keys on each kind of control, and compare the cells."""
    tab.goto(address)
    cells = tab.locator(".jp-Notebook .jp-Cell")
    cells.first.click(timeout=90_000)
    tab.wait_for_selector("text=Python 3", timeout=90_000)
    tab.keyboard.press("Escape")
    for _ in CELLS:
        tab.keyboard.press("Shift+Enter")
        tab.wait_for_timeout(500)
    tab.wait_for_selector(".jp-OutputArea .hit", timeout=120_000)
    texts = cells.locator(".cm-content")
    expected = texts.all_inner_texts()
    for control in CONTROLS:
        tab.locator(f".jp-OutputArea {control}").first.focus()
        for key in COMMANDS:
            tab.keyboard.press(key)
        tab.wait_for_timeout(300)
        assert texts.all_inner_texts() == expected, f"a key pressed on {control} edited the notebook"
    tab.locator(".jp-OutputArea .hit").nth(3).click()
    texts.nth(1).click()
    tab.keyboard.press("Control+Enter")
    tab.wait_for_selector("text=pinned 3", timeout=30_000)
    # The same keys are commands elsewhere: what was pressed above could have done something.
    tab.keyboard.press("Escape")
    tab.keyboard.press("b")
    tab.wait_for_timeout(500)
    assert cells.count() == len(expected) + 1, "the key b did not insert a cell in command mode"


def main() -> None:
    """Start JupyterLab, check, and stop it."""
    program = Path(sys.executable).with_name("jupyter-lab")
    if not program.exists():
        sys.exit(f"needs {program.name} in this environment")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        write_notebook(Path(folder) / "check.ipynb")
        options = (
            "--no-browser",
            "--allow-root",
            f"--port={port}",
            "--IdentityProvider.token=",
            "--ServerApp.ip=127.0.0.1",
        )
        with (Path(folder) / "log.txt").open("w") as log:
            server = subprocess.Popen(
                [program, *options], cwd=folder, stdout=log, stderr=log, env={**os.environ, "HOME": folder}
            )
        try:
            for _ in range(60):
                try:
                    urlopen(f"http://127.0.0.1:{port}/api")
                    break
                except (URLError, ConnectionError):
                    time.sleep(1)
            tab = browser.new_page(viewport={"width": 1400, "height": 1100})
            check(tab, f"http://127.0.0.1:{port}/lab/tree/check.ipynb")
        finally:
            server.terminate()
            server.wait()
    print(f"no key on {len(CONTROLS)} kinds of controls edited the notebook, and the pinned atom reached Python")


if __name__ == "__main__":
    main()
