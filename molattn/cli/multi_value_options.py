"""Commands with options of several values, `--target-columns A B`, which may also be repeated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typer.core import TyperCommand

from molattn.errors import UsageError, short_repr

REPLACES_TABLE = ("--dataset",)
"""Options that are given instead of the last positional argument, a table."""
MAY_NAME_TABLE = ("--config", "--resume")
"""Options of files and folders that may name a table."""
NUMBERS = ("--split-sizes",)
"""Options of several numbers, which may also be separated by commas."""


def _is_option(token: str) -> bool:
    return token.startswith("-") and token != "-"


class MultiValueCommand(TyperCommand):
    """A command whose options of several values take all arguments up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click, after `repeat_options`."""
        return super().parse_args(ctx, repeat_options(self.params, args))

    def get_help_option(self, ctx: Any) -> Any:
        """As click, in the last panel of options."""
        option = super().get_help_option(ctx)
        if option is not None and self.params:
            option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None)
        return option


@dataclass(frozen=True)
class _Group:
    """An option with its value, or a positional argument.

    Attributes:
        tokens: the arguments.
        option: the name of an option that may be repeated; empty for all others.
        extra: the arguments after the value of such an option, up to the next option.
    """

    tokens: tuple[str, ...]
    option: str = ""
    extra: tuple[str, ...] = ()


def repeat_options(parameters: Sequence[Any], arguments: Sequence[str]) -> list[str]:
    """The arguments with an option repeated for each of its values: `--metric a b` is `--metric a --metric b`.

    Positional arguments come before such values, which would otherwise be ambiguous; numbers are not. The values of
    `NUMBERS` may be one argument, `0.8,0.1,0.1`.

    Args:
        parameters: of a click command.
        arguments: of the command line.

    Raises:
        UsageError: an argument may be a value or a positional argument.
    """
    options = {name: p for p in parameters if p.param_type_name == "option" for name in (*p.opts, *p.secondary_opts)}
    groups = _groups(options, list(arguments))
    given = {token.partition("=")[0] for group in groups for token in group.tokens[:1]}
    num_arguments = sum(p.param_type_name == "argument" for p in parameters)
    num_arguments -= not given.isdisjoint(name for name in REPLACES_TABLE if name in options)
    num_positional = sum(not _is_option(group.tokens[0]) for group in groups)
    only_group = sum(bool(group.extra) for group in groups) == 1 and given.isdisjoint(MAY_NAME_TABLE)
    result: list[str] = []
    positional_before = 0
    for group in groups:
        result += group.tokens
        positional_before += not _is_option(group.tokens[0])
        if not group.extra:
            continue
        if positional_before >= num_arguments:
            result += [token for value in group.extra for token in (group.option, value)]
        elif only_group and num_positional + len(group.extra) <= num_arguments:
            result += group.extra  # the missing positional arguments
        else:
            raise UsageError(
                f"{short_repr(group.extra[0])} after {group.option} may be one of its values or a table: give the "
                f"table before {group.option}, or repeat {group.option} for each value"
            )
    return _split_numbers(result)


def _groups(options: Mapping[str, Any], arguments: list[str]) -> list[_Group]:
    groups: list[_Group] = []
    while arguments:
        token = arguments.pop(0)
        name, equals, _ = token.partition("=")
        option = options.get(name)
        if token == "--":
            return [*groups, _Group((token,)), *(_Group((other,)) for other in arguments)]
        if option is None:
            num_values = int(_is_option(token) and _short_takes_next(options, token))
        else:
            num_values = 0 if equals or option.is_flag or option.count else option.nargs
        tokens, arguments = (token, *arguments[:num_values]), arguments[num_values:]
        while name in NUMBERS and arguments and _is_number(arguments[0]):
            tokens = (*tokens, name, arguments.pop(0))
        extra: list[str] = []
        while option is not None and option.multiple and name not in NUMBERS and arguments:
            if _is_option(arguments[0]):
                break
            extra.append(arguments.pop(0))
        groups.append(_Group(tokens, name if extra else "", tuple(extra)))
    return groups


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _short_takes_next(options: Mapping[str, Any], token: str) -> bool:
    """Whether combined short options, such as -qn, end with one whose value is the next argument."""
    letters = "" if token.startswith("--") else token[1:]
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
        token = rest.pop(0)
        name, equals, value = token.partition("=")
        if token == "--":
            return [*result, token, *rest]
        if name in NUMBERS and (equals or rest):
            value = value if equals else rest.pop(0)
            result += [token for number in value.split(",") for token in (name, number)]
        else:
            result.append(token)
    return result
