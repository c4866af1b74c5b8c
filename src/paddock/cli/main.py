"""The root of the command line.

It knows every command's name and summary, and imports only the command that is run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from paddock.cli.output.streams import configure_streams, flush_streams
from paddock.cli.parameters import skip_conversion, skip_conversion_recursively


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command's module, and its summary for `--help` before it is imported."""

    module: str
    summary: str


COMMANDS = {
    "plugin": LazyCommand(
        "paddock.cli.commands.plugin.app", "Check, install, upgrade, pin, enable and remove plugins."
    ),
    "call": LazyCommand("paddock.cli.commands.call", "Call a plugin and print what it answers."),
    "dev": LazyCommand("paddock.cli.commands.dev", "Run a plugin from its folder, and again whenever a file is saved."),
    "calls": LazyCommand("paddock.cli.commands.calls", "Look at, follow and cancel the calls of a running daemon."),
    "run": LazyCommand("paddock.cli.commands.run", "See what is not known of calls with an effect, and settle it."),
    "artifact": LazyCommand("paddock.cli.commands.artifact", "Fetch the big bytes that plugins made."),
    "serve": LazyCommand("paddock.cli.commands.serve", "Run the enabled plugins and take calls until stopped."),
    "mcp": LazyCommand(
        "paddock.cli.commands.mcp", "Be an MCP server on stdin and stdout, for a client that starts it."
    ),
    "import": LazyCommand(
        "paddock.cli.commands.import_servers", "Take over MCP servers from another program's settings."
    ),
    "key": LazyCommand("paddock.cli.commands.key", "Make signing keys and decide whose signatures to trust."),
    "login": LazyCommand(
        "paddock.cli.commands.identity.login", "Print a link that signs somebody in at the console, once."
    ),
    "tenant": LazyCommand("paddock.cli.commands.identity.tenant", "Make and remove tenants, which share nothing."),
    "user": LazyCommand("paddock.cli.commands.identity.user", "Add people, and say what they may do."),
    "group": LazyCommand("paddock.cli.commands.identity.group", "Put people into groups, for rules to speak of."),
    "apikey": LazyCommand("paddock.cli.commands.identity.apikey", "Make and revoke keys for programs."),
    "secret": LazyCommand("paddock.cli.commands.secret", "Keep secrets for plugins; no value is ever shown."),
    "webhook": LazyCommand("paddock.cli.commands.webhook", "Have events sent to others, signed."),
    "consent": LazyCommand(
        "paddock.cli.commands.identity.consent", "Keep and take back what a person agreed to, callable by callable."
    ),
    "approvals": LazyCommand("paddock.cli.commands.approvals", "See what waits for a person, and answer."),
    "explain": LazyCommand(
        "paddock.cli.commands.explain", "Explain a decision: who, what, which rule, what would have changed it."
    ),
    "policy": LazyCommand("paddock.cli.commands.policy", "Check, read, test and try the rules about what may happen."),
    "ledger": LazyCommand("paddock.cli.commands.ledger.app", "Look at what happened, verify, export and erase it."),
    "config": LazyCommand("paddock.cli.commands.config", "Show settings and where each value comes from."),
    "doctor": LazyCommand(
        "paddock.cli.commands.doctor", "Say what works on this machine, and what to type where it does not."
    ),
    "demo": LazyCommand("paddock.demo.command", "Run the example plugins in a temporary home, and show what they do."),
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are run, not when they are listed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's own shape
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=entry.summary, rich_markup_mode=self.rich_markup_mode) if entry else None

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)
        skip_conversion(parameters)
        return parameters

    def main(self, args: Any = None, prog_name: str | None = None, **extra: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the program to its end. Usage errors are reported like all other errors."""
        del prog_name  # people type `paddock`, however it was started
        arguments = sys.argv[1:] if args is None else list(args)
        extra["standalone_mode"] = False
        try:
            status = super().main(arguments, "paddock", **extra)
        except typer.Abort:
            sys.stderr.write("stopped\n")
            status = 1
        except typer.TyperException as error:
            status = self._report_usage_error(error, as_json="--json" in arguments)
        sys.exit(status or 0)

    def _report_usage_error(self, error: typer.TyperException, *, as_json: bool) -> int:
        if type(error).__name__ == "NoArgsIsHelpError":
            return error.exit_code  # the help was shown already
        from paddock.cli.output.usage_error import report_usage_error

        return report_usage_error(error, as_json=as_json, plugin_commands=list(load_command("plugin").commands))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = cast("Any", super()).resolve_command(ctx, args)
        loaded = load_command(command.name)
        skip_conversion_recursively(loaded, ctx)
        return name, loaded, rest


def load_command(name: str) -> Any:
    """Import and return a command."""
    command = typer.main.get_command(import_module(COMMANDS[name].module).app)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # one of them may be a secret
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start here: paddock doctor, then paddock plugin check DIR.",
)


def _print_version(requested: bool) -> None:
    if requested:
        from paddock import __version__

        typer.echo(f"paddock {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    """Paddock: a plugin host for AI agents. Plugins run fenced in, with exactly what you granted."""
    del version


def main() -> None:
    """Run the command line. Commands report their own errors."""
    configure_streams()
    status: int = 0
    try:
        app()
    except SystemExit as exit_request:
        status = exit_request.code if isinstance(exit_request.code, int) else 1
    except KeyboardInterrupt:
        # Interrupted before a command started; `handle_errors` reports it for commands.
        nothing_printed = (
            "paddock.cli.output.report" not in sys.modules
        )  # then no JSON document can have been printed yet
        from paddock.cli.output.report import report_interrupt
        from paddock.core.error_mapping import EXIT_INTERRUPTED

        report_interrupt(as_json=nothing_printed and "--json" in sys.argv)
        status = EXIT_INTERRUPTED
    sys.exit(flush_streams(status))
