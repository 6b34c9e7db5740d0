"""`molattn presets`: the models available as `--preset`."""

from typing import Annotated

import typer

from molattn.cli.terminal import console, print_json, print_line
from molattn.models.presets import PRESETS


def presets(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, with their settings.")] = False,
) -> None:
    """List the presets: their architectures, publications and numbers of parameters.

    `molattn train --dataset esol --preset mat` trains one; `--set` changes any of its settings.
    """
    from molattn.models.base import build_model
    from molattn.training.run_config import resolve

    counts = {
        name: sum(p.numel() for p in build_model(resolve(None, {"preset": name}).model, 1).parameters())
        for name in PRESETS
    }
    if as_json:
        listed = [
            {
                "name": name,
                "title": preset.title,
                "citation": preset.citation,
                "url": preset.url,
                "parameters": counts[name],
                "needs_3d": preset.needs_3d,
                "settings": preset.settings,
            }
            for name, preset in PRESETS.items()
        ]
        print_json(listed)
        return
    from rich.table import Table

    table = Table("preset", "architecture", "source")
    table.add_column("parameters", justify="right")
    table.add_column("3D")
    for name, preset in PRESETS.items():
        source = f"{preset.citation}, {_short(preset.url)}" if preset.url else preset.citation
        table.add_row(name, preset.title, source, f"{counts[name]:,}", "yes" if preset.needs_3d else "no")
    console().print(table)
    print_line("Train one with: molattn train --dataset esol --preset mat")


def _short(url: str) -> str:
    """The URL of a paper, as in a citation."""
    return url.replace("https://arxiv.org/abs/", "arXiv:").removeprefix("https://")
