"""The page of the settings: each as it is declared in molattn.training.config and molattn.models.config."""

import dataclasses
import inspect
import re
from typing import Any, get_args, get_type_hints

from molattn.models.config import CONFIGS
from molattn.training.command_option import Option
from molattn.training.config import DataConfig, TrainingConfig

_SECTIONS = (
    ("data", "The table and its split: `[data]`", (DataConfig,)),
    ("model", "The model: `[model]`", tuple(CONFIGS.values())),
    ("training", "The training: `[training]`", (TrainingConfig,)),
)


def write(_: str) -> str:
    """All settings as Markdown, a part for each section of a run's config.toml."""
    return "\n\n".join(_section(*section) for section in _SECTIONS)


def _section(section: str, title: str, kinds: tuple[type[Any], ...]) -> str:
    parts = [f"## {title}"]
    for kind in kinds:
        if len(kinds) > 1:
            name = next(f.default for f in dataclasses.fields(kind) if f.name == "kind")
            introduction = (inspect.getdoc(kind) or "").partition("\n")[0]
            parts.append(f'### `kind = "{name}"`\n\n{introduction}')
        texts = _descriptions(kind)
        hints = get_type_hints(kind)
        # A name of two kinds of model is in the index once, at the first.
        earlier = {f.name for other in kinds[: kinds.index(kind)] for f in dataclasses.fields(other)}
        parts += [
            _setting(section, field, hints[field.name], texts[field.name], field.name in earlier)
            for field in dataclasses.fields(kind)
        ]
    return "\n\n".join(parts)


def _descriptions(kind: type[Any]) -> dict[str, str]:
    """The texts of the docstring's part "Attributes", by the names of the settings."""
    attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in found for name in names.split(", ")}


def _setting(section: str, field: dataclasses.Field[Any], hint: Any, text: str, repeated: bool) -> str:
    declared: Option | None = field.metadata.get("option")
    lines = [f"````{{confval}} {section}.{field.name}"]
    if repeated:
        lines.append(":no-index:")
    lines += [f":type: {_type_name(hint)}", f":default: '`{_toml(field.default)}`'", "", _sentence(text)]
    if declared is not None:
        names = [name for name in declared.names if name.startswith("--")]
        names = names or [f"--{field.name.replace('_', '-')}"]
        option = names[-1] if field.name not in names[0].replace("-", "_") else names[0]
        lines += ["", f"On the command line: {{option}}`{option} <molattn train {option}>`."]
    return "\n".join([*lines, "````"])


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    # Patterns such as "tox_*" would be read as emphasis.
    return re.sub(r'(?<!`)"([^"`]*[*_][^"`]*)"', r'`"\1"`', text)


def _type_name(hint: Any) -> str:
    if item := get_args(hint):
        return f"list of {_type_name(item[0])}"
    return {str: "text", int: "integer", float: "number", bool: "true or false"}[hint]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    return f'"{value}"' if isinstance(value, str) else str(value)
