"""`paddock call NAME` makes a call; `paddock call list`, `show` … are about calls that were made."""

from __future__ import annotations

from typing import Any

import click

from paddock.cli.command import LazyCommand, LazyGroup
from paddock.cli.commands.call.make import make

_HERE = "paddock.cli.commands.call"


class CallGroup(LazyGroup):
    """A group in which a word that is no command is the name of a callable.

    Names of callables contain a dot, so that they never clash with a command. A plugin that is one callable may be
    named without a dot; one that is named like a command is called as `PLUGIN.PLUGIN`.
    """

    default = make

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse a call if the first word is neither a command nor a request for help."""
        help_options = parent.help_option_names if parent else ()
        if not args or args[0] in self.table or args[0] in help_options:
            return super().make_context(info_name, args, parent, **extra)
        return self.default.make_context(info_name, args, parent, **extra)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_usage(ctx, formatter)
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...", prefix=" " * len("Usage: "))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_help_text(ctx, formatter)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_arguments(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_epilog(ctx, formatter)


app = CallGroup(
    "call",
    help=make.help,
    table={
        "list": LazyCommand(f"{_HERE}.daemon_calls:list_"),
        "show": LazyCommand(f"{_HERE}.daemon_calls:show"),
        "follow": LazyCommand(f"{_HERE}.daemon_calls:follow"),
        "answer": LazyCommand(f"{_HERE}.daemon_calls:answer"),
        "cancel": LazyCommand(f"{_HERE}.daemon_calls:cancel"),
        "unresolved": LazyCommand(f"{_HERE}.unresolved:app"),
    },
)
