"""`molattn push`: a trained model on the Hugging Face Hub."""

from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Quiet
from molattn.cli.terminal import print_line, print_status


def push(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run or of a base model.", show_default=False)],
    address: Annotated[str, typer.Argument(help="hf://user/model, created if it does not exist.", show_default=False)],
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch to write to. [default: the main branch]", show_default=False)
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Message of the commit.")] = None,
    license: Annotated[
        str | None, typer.Option(help="Licence of the model in its card, such as mit.", show_default=False)
    ] = None,
    card: Annotated[
        Path | None, typer.Option(help="A card of your own. [default: written from the run]", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the model card and the files; upload nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Upload a model to the Hugging Face Hub, with a model card of its data, metrics and limits.

    `molattn push runs/esol hf://user/esol` writes `config.json`, `model.safetensors`, `metrics.json`, `config.toml`,
    the plots and a card, `README.md`; then `molattn predict hf://user/esol` works anywhere. The training table and the
    predictions of its molecules are never uploaded. `--dry-run` prints the card, and needs no account and no network.
    Log in with `hf auth login` first. Needs `pip install 'molattn[hub]'`.
    """
    from molattn.publish.push import push

    pushed = push(
        run,
        address,
        private=private,
        revision=revision or "",
        commit_message=message or "",
        license=license or "",
        card=card,
        dry_run=dry_run,
    )
    if dry_run:
        for line in pushed.card.splitlines():
            print_line(line)
    if not quiet:
        for name, size in pushed.files.items():
            print_status(f"{size:>12,}  {name}")
        print_status("not uploaded: --dry-run" if dry_run else f"see {pushed.url}, commit {pushed.commit}")
    if not dry_run:
        print_line(pushed.address)
