"""Several values after one option, `--target-columns A B`, for options that may also be repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from molattn.errors import UsageError, short_repr

STAND_FOR_THE_TABLE = ("--dataset",)
"""Options that are given instead of the last positional argument, a table."""
HOLD_A_TABLE = ("--config", "--resume")
"""Options of files and folders that may name a table."""
NUMBERS = ("--split-sizes",)
"""Options of several numbers, which may also be separated by commas."""


@dataclass(frozen=True)
class _Part:
    """Arguments that belong together: an option and its value, or a positional argument.

    Attributes:
        texts: the arguments.
        option: the name of an option that may be repeated; empty for all others.
        more: what follows the value of such an option, up to the next option.
    """

    texts: tuple[str, ...]
    option: str = ""
    more: tuple[str, ...] = ()

    @property
    def is_positional(self) -> bool:
        return not _is_option(self.texts[0])


def repeat_options(parameters: Sequence[Any], arguments: Sequence[str]) -> list[str]:
    """The arguments with an option repeated for each of its values: `--metric a b` is `--metric a --metric b`.

    The positional arguments come before such values, which might otherwise be either; numbers cannot. The values of
    `NUMBERS` may be one text, `0.8,0.1,0.1`.

    Args:
        parameters: of a click command.
        arguments: of the command line.

    Raises:
        UsageError: a text that may be a value or a positional argument.
    """
    options = {name: p for p in parameters if p.param_type_name == "option" for name in (*p.opts, *p.secondary_opts)}
    parts = _parts(options, list(arguments))
    given = {text.partition("=")[0] for part in parts for text in part.texts[:1]}
    places = sum(p.param_type_name == "argument" for p in parameters)
    places -= not given.isdisjoint(name for name in STAND_FOR_THE_TABLE if name in options)
    firm = sum(part.is_positional for part in parts)
    loose = [part for part in parts if part.more]
    result: list[str] = []
    before = 0
    for part in parts:
        result += part.texts
        before += part.is_positional
        if not part.more:
            continue
        if before >= places:
            result += [text for value in part.more for text in (part.option, value)]
        elif len(loose) == 1 and firm + len(part.more) <= places and given.isdisjoint(HOLD_A_TABLE):
            result += part.more  # the positional arguments that are still missing
        else:
            raise UsageError(
                f"{short_repr(part.more[0])} after {part.option} may be one of its values or a table: give the table "
                f"before {part.option}, or repeat {part.option} for each value"
            )
    return _split_numbers(result)


def _parts(options: Mapping[str, Any], arguments: list[str]) -> list[_Part]:
    parts: list[_Part] = []
    while arguments:
        text = arguments.pop(0)
        name, equals, _ = text.partition("=")
        option = options.get(name)
        if text == "--":
            return [*parts, _Part((text,)), *(_Part((other,)) for other in arguments)]
        if option is None:
            width = 1 if _is_option(text) and _short_takes_next(options, text) else 0
        else:
            width = 0 if equals or option.is_flag or option.count else option.nargs
        texts, arguments = (text, *arguments[:width]), arguments[width:]
        while name in NUMBERS and arguments and _is_number(arguments[0]):
            texts = (*texts, name, arguments.pop(0))
        more: list[str] = []
        while (
            option is not None
            and option.multiple
            and name not in NUMBERS
            and arguments
            and not _is_option(arguments[0])
        ):
            more.append(arguments.pop(0))
        parts.append(_Part(texts, name if more else "", tuple(more)))
    return parts


def _is_option(text: str) -> bool:
    return text.startswith("-") and text != "-"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short_takes_next(options: Mapping[str, Any], text: str) -> bool:
    """Whether short options in one, such as -qn, end with one whose value is the next argument."""
    letters = "" if text.startswith("--") else text[1:]
    for i, letter in enumerate(letters):
        option = options.get(f"-{letter}")
        if option is None:
            return False
        if not (option.is_flag or option.count):
            return i + 1 == len(letters)
    return False


def _split_numbers(arguments: Sequence[str]) -> list[str]:
    """The arguments, with `--split-sizes 0.8,0.1,0.1` as three options."""
    result: list[str] = []
    rest = list(arguments)
    while rest:
        text = rest.pop(0)
        name, equals, value = text.partition("=")
        if text == "--":
            return [*result, text, *rest]
        if name in NUMBERS and (equals or rest):
            value = value if equals else rest.pop(0)
            result += [text for number in value.split(",") for text in (name, number)]
        else:
            result.append(text)
    return result
