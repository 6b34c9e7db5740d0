"""Commands whose options take several values, `--target-columns A B`."""

from typing import Any

from typer.core import TyperCommand

from molattn.cli.repeated_options import repeat_options


class SeveralValues(TyperCommand):
    """A command whose options of several values take them one after the other, up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click, from the arguments with such options repeated."""
        return super().parse_args(ctx, repeat_options(self.params, args))

    def get_help_option(self, ctx: Any) -> Any:
        """As click, among the options of the last panel."""
        option = super().get_help_option(ctx)
        if option is not None and self.params:
            option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None)
        return option
