"""The classes of all commands and groups: help with examples, errors as exit codes, and imports on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, cast

import click


class PaddockCommand(click.Command):
    """A command that reports its errors as text or JSON, and whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click's parser leaves it out, and the message names the command's help
            raise
        for parameter in self.params:
            if parameter.type is click.STRING:
                _require_utf8(ctx, parameter, ctx.params.get(parameter.name or ""))
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        from paddock.cli.output.report import errors_reported

        with errors_reported(as_json=bool(ctx.params.get("as_json"))):
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one on each line and never wrapped, so that they can be copied."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _require_utf8(ctx: click.Context, parameter: click.Parameter, value: str | Iterable[str] | None) -> None:
    """Reject bytes that are not UTF-8: they arrive as lone surrogates, which can be neither stored nor printed."""
    for text in (value,) if isinstance(value, str) else value or ():
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise click.BadParameter("is not valid UTF-8", ctx, parameter)


def command(name: str, *, examples: Sequence[str]) -> Callable[[Callable[..., None]], PaddockCommand]:
    """Turn a function with `click.option` and `click.argument` decorators into a command."""
    return click.command(name, cls=PaddockCommand, examples=examples)


class PaddockGroup(click.Group):
    """A group of commands in the order of their definition; without one of them, its help is shown."""

    command_class = PaddockCommand

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


class LazyCommand(NamedTuple):
    """Where a command is defined (`module:attribute`), and its summary for help without importing it."""

    target: str
    summary: str = ""

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))


class LazyGroup(PaddockGroup):
    """A group that imports only the command that is run.

    Args:
        name: The word for the group.
        table: Its commands, in the order of its help.
        aliases: Other words for some of them, which the help does not list.
        attributes: As for `click.Group`.
    """

    def __init__(
        self,
        name: str,
        *,
        table: Mapping[str, LazyCommand],
        aliases: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(name, **attributes)
        self.table = table
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.table.get(self.aliases.get(cmd_name, cmd_name))
        return entry.load() if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the summaries of the table; commands without one are imported for it."""
        if not all(entry.summary for entry in self.table.values()):
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.table.items()])
