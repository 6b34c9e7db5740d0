"""The moving picture that the README opens with: the page of `molattn view`, used with a mouse.

    python docs/pictures.py            trains a model on ESOL first, half a minute
    python docs/pictures.py runs/esol  takes the model of a run

It needs the extra `test`, and a Chromium of the system.
"""

import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from browser import chromium
from PIL import Image, ImageDraw
from playwright.sync_api import Locator, Page, ViewportSize

import molattn
from molattn.inference.views import page_attributions
from molattn.viewer import page

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
SIZE: ViewportSize = {"width": 960, "height": 620}
STILL, MOVING = 1600, 40
"""Milliseconds that a frame is shown: one to look at, and one of the mouse on its way."""
ARROW = ((0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12))


class Mouse:
    """A mouse that is drawn into the frames: a screenshot has none."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        self.place = (430.0, 300.0)
        self.frames: list[tuple[Image.Image, int]] = []

    def show(self, milliseconds: int) -> None:
        """Take a frame."""
        image = Image.open(io.BytesIO(self.tab.screenshot())).convert("RGB")
        arrow = [(x + self.place[0], y + self.place[1]) for x, y in ARROW]
        ImageDraw.Draw(image).polygon(arrow, fill="black", outline="white")
        self.frames.append((image, milliseconds))

    def look(self, target: Locator, *, click: bool = False, steps: int = 5) -> None:
        """Move to the middle of an element, click it, and stay for a while."""
        box = target.bounding_box()
        assert box is not None
        (x, y), (u, v) = self.place, (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for k in range(1, steps + 1):
            self.place = (x + (u - x) * k / steps, y + (v - y) * k / steps)
            self.tab.mouse.move(*self.place)
            if k < steps:
                self.show(MOVING)
        if click:
            self.tab.mouse.click(*self.place)
        self.show(STILL)


def use(tab: Page) -> Iterator[tuple[Image.Image, int]]:
    """The frames of a page in use: atoms, heads, arcs by head, attributions."""
    mouse = Mouse(tab)
    atoms = tab.locator(".hit")
    mouse.show(STILL)
    for i in (12, 10):
        mouse.look(atoms.nth(i))
    mouse.look(atoms.nth(3), click=True)
    heads = tab.get_by_role("radio", name=re.compile(r"layer \d+, head \d+"))
    for fraction in (0.3, 0.7):
        mouse.look(heads.nth(int(fraction * heads.count())), click=True)
    mouse.look(tab.get_by_text("arcs by head"), click=True)
    mouse.look(tab.get_by_role("tab", name="Attributions"), click=True)
    mouse.look(tab.locator(".hit:visible").nth(12))
    yield from mouse.frames


def write(run: str | Path, folder: Path) -> Path:
    """The page of aspirin by the model of a run, as `page.gif` in `folder`."""
    path, document = folder / "page.gif", folder / "page.html"
    predictor = molattn.load(run)
    attributions = page_attributions(predictor, [ASPIRIN], print)
    document.write_text(page([predictor.attention(ASPIRIN)], attributions), encoding="utf-8")
    with chromium() as browser:
        tab = browser.new_page(viewport=SIZE)
        tab.goto(document.resolve().as_uri())
        images, milliseconds = zip(*use(tab), strict=True)
    document.unlink()
    # One palette for all frames, so that what stays the same costs nothing; each rare color of the stills is in it.
    stills = [image for image, shown in zip(images, milliseconds, strict=True) if shown == STILL]
    together = Image.new("RGB", (SIZE["width"], SIZE["height"] * len(stills)))
    for k, image in enumerate(stills):
        together.paste(image, (0, k * SIZE["height"]))
    palette = together.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1)
    first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    # It is played twice and then stops: an endless animation distracts from the text.
    first.save(path, save_all=True, append_images=others, duration=milliseconds, loop=1, optimize=True)
    return path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        run = sys.argv[1] if len(sys.argv) > 1 else molattn.train("esol", output_dir=f"{made}/esol").folder
        print(write(run, Path(__file__).parent))
