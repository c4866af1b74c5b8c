"""The root of the command line.

It knows every command's name and summary, and imports only the command that is run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from paddock.cli.command import LazyCommand, LazyGroup
from paddock.cli.output.streams import configure_streams, flush_streams

COMMANDS = {
    "plugin": LazyCommand(
        "paddock.cli.commands.plugin.group:app", "Check, install, upgrade, pin, enable and remove plugins."
    ),
    "call": LazyCommand("paddock.cli.commands.call.group:app", "Call a plugin and print what it answers."),
    "dev": LazyCommand(
        "paddock.cli.commands.dev:dev", "Run a plugin from its folder, and again whenever a file is saved."
    ),
    "artifact": LazyCommand("paddock.cli.commands.artifact:app", "Fetch the big bytes that plugins made."),
    "serve": LazyCommand("paddock.cli.commands.serve:serve", "Run the enabled plugins and take calls until stopped."),
    "mcp": LazyCommand(
        "paddock.cli.commands.mcp:mcp", "Be an MCP server on stdin and stdout, for a client that starts it."
    ),
    "import": LazyCommand(
        "paddock.cli.commands.import_servers:import_", "Take over MCP servers from another program's settings."
    ),
    "key": LazyCommand("paddock.cli.commands.key:app", "Make signing keys and decide whose signatures to trust."),
    "login": LazyCommand(
        "paddock.cli.commands.identity.login:login", "Print a link that signs somebody in at the console, once."
    ),
    "tenant": LazyCommand("paddock.cli.commands.identity.tenant:app", "Make and remove tenants, which share nothing."),
    "user": LazyCommand("paddock.cli.commands.identity.user:app", "Add people, and say what they may do."),
    "group": LazyCommand("paddock.cli.commands.identity.group:app", "Put people into groups, for rules to speak of."),
    "apikey": LazyCommand("paddock.cli.commands.identity.apikey:app", "Make and revoke keys for programs."),
    "secret": LazyCommand("paddock.cli.commands.secret:app", "Keep secrets for plugins; no value is ever shown."),
    "webhook": LazyCommand("paddock.cli.commands.webhook:app", "Have events sent to others, signed."),
    "consent": LazyCommand(
        "paddock.cli.commands.identity.consent:app", "Keep and take back what a person agreed to, callable by callable."
    ),
    "approval": LazyCommand("paddock.cli.commands.approval:app", "See what waits for a person, and answer."),
    "explain": LazyCommand(
        "paddock.cli.commands.explain:explain", "Explain a decision: who, what, which rule, what would have changed it."
    ),
    "policy": LazyCommand(
        "paddock.cli.commands.policy:app", "Check, read, test and try the rules about what may happen."
    ),
    "ledger": LazyCommand(
        "paddock.cli.commands.ledger.group:app", "Look at what happened, verify, export and erase it."
    ),
    "config": LazyCommand("paddock.cli.commands.config:app", "Show settings and where each value comes from."),
    "doctor": LazyCommand(
        "paddock.cli.commands.doctor:doctor", "Say what works on this machine, and what to type where it does not."
    ),
    "demo": LazyCommand(
        "paddock.demo.command:demo", "Run the example plugins in a temporary home, and show what they do."
    ),
}


class RootGroup(LazyGroup):
    """The `paddock` program. Usage errors are reported like all other errors."""

    def main(self, args: Sequence[str] | None = None, **_: Any) -> NoReturn:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run one command and exit. People type `paddock`, however it was started."""
        arguments = sys.argv[1:] if args is None else list(args)
        try:
            with self.make_context("paddock", list(arguments)) as context:
                self.invoke(context)
        except click.exceptions.Exit as end:
            sys.exit(end.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(error.exit_code)
        except click.ClickException as error:
            from paddock.cli.output.usage_error import report_usage_error

            sys.exit(report_usage_error(error, as_json="--json" in arguments))
        sys.exit(0)


def _print_version(context: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested:
        from paddock import __version__

        click.echo(f"paddock {__version__}")
        context.exit()


app = RootGroup(
    "paddock",
    table=COMMANDS,
    help="Paddock: a plugin host for AI agents. Plugins run fenced in, with exactly what you granted.",
    epilog="Start here: paddock doctor, then paddock plugin check DIR.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version.",
        )
    ],
)


def main() -> None:
    """Run the command line. Commands report their own errors."""
    configure_streams()
    status: int = 0
    try:
        app()
    except SystemExit as exit_request:
        status = exit_request.code if isinstance(exit_request.code, int) else 1
    except KeyboardInterrupt:
        # Interrupted before a command started; commands report it themselves.
        nothing_printed = (
            "paddock.cli.output.report" not in sys.modules
        )  # then no JSON document can have been printed yet
        from paddock.cli.output.report import report_interrupt
        from paddock.core.error_mapping import EXIT_INTERRUPTED

        report_interrupt(as_json=nothing_printed and "--json" in sys.argv)
        status = EXIT_INTERRUPTED
    sys.exit(flush_streams(status))
