"""The page of the commands: their arguments and options, from molattn's command line."""

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from molattn.cli.main import app
from molattn_docs.text import dedent

NAME = "molattn"
Command = Any
Parameter = Any
"""Those of the click that typer uses, which may be a copy of its own."""


def commands() -> dict[str, Command]:
    """Every command by its name, such as "train" or "datasets list", in the order of `molattn --help`."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Command]]:
        subcommands = getattr(command, "commands", {})
        if name and not subcommands:
            yield name, command
        for sub, found in subcommands.items():
            yield from walk(f"{name} {sub}".strip(), found)

    return dict(walk("", get_command(app)))


def write(_: str) -> str:
    """All commands as Markdown: a table of them, and a section for each."""
    found = commands()
    rows = [f"| [`{NAME} {name}`](#{_label(name)}) | {_first_sentence(command)} |" for name, command in found.items()]
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    return "\n\n".join([table, *(_section(name, command) for name, command in found.items())])


def _label(name: str) -> str:
    return f"{NAME}-{name.replace(' ', '-')}"


def _first_sentence(command: Command) -> str:
    return re.split(r"(?<=[.])\s", _one_line(command.help or ""), maxsplit=1)[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _section(name: str, command: Command) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    context = command.context_class(command, info_name=name)
    usage = " ".join([NAME, name, *(_usage(p) for p in arguments), "[OPTIONS]"])
    parts = [
        f"({_label(name)})=\n\n## `{NAME} {name}`",
        f"```text\n{usage}\n```",
        dedent(command.help or ""),
    ]
    if command.epilog:
        parts.append(dedent(command.epilog.replace("More options with --help-all", "`--help-all` also shows")))
    parts.append(f"```{{program}} {NAME} {name}\n```")
    parts += [_argument(p) for p in arguments if getattr(p, "help", None)]
    panels: dict[str, list[Parameter]] = {}
    for option in options:
        panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", []).append(option)
    for panel, members in panels.items():
        if len(panels) > 1:
            parts.append(f"### {panel} options of `{name}`")
        parts += [_option(option, context) for option in members]
    return "\n\n".join(parts)


def _usage(argument: Parameter) -> str:
    name = (argument.metavar or argument.name or "").upper().strip("[]")
    name = name.removesuffix("...") + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _argument(argument: Parameter) -> str:
    return f"**{_usage(argument).strip('[]')}**: {_one_line(getattr(argument, 'help', ''))}"


def _option(option: Parameter, context: Any) -> str:
    """One option as the directive of Sphinx, by which it is in the index and can be referred to."""
    hidden, option.hidden = option.hidden, False  # click describes no hidden option
    record, text = option.get_help_record(context)
    option.hidden = hidden
    value = "" if option.is_flag or option.count else f" {option.metavar or _value_name(record)}"
    names = ", ".join(f"{name}{value}" for name in (*option.opts, *option.secondary_opts))
    return f"````{{option}} {names}\n{_one_line(text)}\n````"


def _value_name(record: str) -> str:
    """What stands for a value whose option names nothing, from click's `--limit <int range>` or `--limit INTEGER`."""
    kind = record.rpartition("--")[2].partition(" ")[2].lower()
    names = {"int": "N", "float": "X", "path": "PATH", "file": "PATH"}
    return next((name for start, name in names.items() if start in kind), "TEXT")
