"""Options of commands that train: the settings of a run that declare one, see `molattn.training.command_option`."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from molattn.models.config import CONFIGS
from molattn.plugins import added_by_plugins
from molattn.training.command_option import Option
from molattn.training.config import DataConfig, TrainingConfig
from molattn.training.run_config import RunConfig

_PANELS = {DataConfig: "Data", TrainingConfig: "Training"}
_RUN = "Run"
# The type of a setting -> the type of its option.
_TYPES: dict[Any, Any] = {
    tuple[str, ...]: list[str],
    tuple[float | str, ...]: list[str],
    tuple[float, ...]: list[float],
}
_KIND = RunConfig().model.kind
_MODEL_OPTIONS = {
    "model": Option(" or ".join(CONFIGS).replace(_KIND, f"{_KIND} (default)"), metavar="KIND", hidden=False),
    "preset": Option("A published model, see `molattn presets`.", metavar="NAME", hidden=False, registry="preset"),
}
"""Options that change several settings."""

Command = Callable[..., None]
_decorated: list[tuple[Command, inspect.Signature, tuple[str, ...], tuple[str, ...]]] = []


def with_settings(*names: str, without: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """A decorator: the command has an option for each of these settings, or for all that declare one but `without`.

    It receives them as keyword arguments, None for those that are not given, so that a configuration file can set them.
    Among them are "model", the kind of model, and "preset".
    """

    def decorate(command: Command) -> Command:
        _decorated.append((command, inspect.signature(command), names, without))
        _add_options(*_decorated[-1])
        return command

    return decorate


def set_table(options: dict[str, Any], table: Path | None) -> None:
    """Set the option "dataset" to the argument TABLE, unless that is None.

    Raises:
        typer.BadParameter: both are given.
    """
    if table is None:
        return
    if options["dataset"] is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    options["dataset"] = str(table)


def list_plugins() -> None:
    """Add the names that plugins define to the help of the options."""
    for decorated in _decorated:
        _add_options(*decorated)


def _add_options(
    command: Command, signature: inspect.Signature, names: tuple[str, ...], without: tuple[str, ...]
) -> None:
    """Set the signature that typer reads: the command's arguments, the settings, and its other options."""
    declared = {name: (str, option, "Training") for name, option in _MODEL_OPTIONS.items()}
    for section, panel in _PANELS.items():
        hints, options = get_type_hints(section), [f for f in fields(section) if "option" in f.metadata]
        section_options = {f.name: (hints[f.name], f.metadata["option"], panel) for f in options}
        declared = section_options | declared if section is DataConfig else declared | section_options
    settings = [
        _parameter(name, *declared[name], hidden=not names) for name in names or declared if name not in without
    ]
    others = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    arguments = [p for p in others if p.kind is not p.KEYWORD_ONLY]
    parameters = [*arguments, *settings, *others[len(arguments) :]]
    command.__signature__ = signature.replace(  # pyright: ignore[reportFunctionMemberAccess]
        parameters=[p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    )


def _parameter(name: str, hint: Any, declared: Option, panel: str, hidden: bool) -> inspect.Parameter:
    """The parameter of a command for a setting, hidden if it is declared so and `hidden`."""
    names, text = declared.names, declared.help
    if not any(n.startswith("--") for n in names):
        names = (f"--{name.replace('_', '-')}", *names)
    if added := [n for n in added_by_plugins(declared.registry) if n not in text]:
        text = f"{text} By plugins: {', '.join(added)}."
    annotation = _option(panel, text, *names, metavar=declared.metavar, hidden=hidden and declared.hidden)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[_TYPES.get(hint, hint) | None, annotation])


def _option(panel: str, text: str, *names: str, metavar: str | None = None, hidden: bool = False) -> Any:
    """An option that is None when not given, so that a configuration file can set it."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False, hidden=hidden)


def _show_all(context: typer.Context, requested: bool) -> None:
    if requested:
        for parameter in context.command.params:
            parameter.hidden = False  # pyright: ignore[reportAttributeAccessIssue]
        print(context.get_help())
        raise typer.Exit


Table = Annotated[
    Path | None,
    typer.Argument(
        help="A CSV, TSV, Excel, Parquet, SMI or SDF table to train on.",
        metavar="TABLE",
        show_default=False,
    ),
]
OutputDir = Annotated[
    Path | None, _option(_RUN, "The run's folder. [default: runs/NAME]", "--output-dir", "-o", metavar="PATH")
]
Resume = Annotated[Path | None, _option(_RUN, "The folder of an unfinished run to continue.", metavar="PATH")]
Config = Annotated[Path | None, _option(_RUN, "A TOML file of settings, such as a run's config.toml.", metavar="PATH")]
Settings = Annotated[
    list[str] | None, _option(_RUN, "Any other setting: model.num_layers=6.", "--set", metavar="KEY=VAL")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing run.", rich_help_panel=_RUN)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and warnings.", rich_help_panel=_RUN)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print more details.", rich_help_panel=_RUN)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_RUN)]
HelpAll = Annotated[
    bool,
    typer.Option("--help-all", help="Show more options.", is_eager=True, callback=_show_all, rich_help_panel=_RUN),
]
