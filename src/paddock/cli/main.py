"""The root of the command line.

It knows every command's name and summary, and imports only the command that is run.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from paddock.cli.command import LazyCommand, LazyGroup
from paddock.cli.output.streams import configure_streams, flush_streams

_GC_THRESHOLD = 200_000  # allocations between two collections: loading a host's modules leaves nothing to collect
COMMANDS = {
    "plugin": LazyCommand(
        "paddock.cli.commands.plugin.group:app", "Check, install, configure, run and remove plugins."
    ),
    "call": LazyCommand(
        "paddock.cli.commands.call.group:app", "Make a call, and list, follow, answer and cancel calls."
    ),
    "dev": LazyCommand("paddock.cli.commands.dev:dev", "Run a plugin from its folder, and reload it on every change."),
    "artifact": LazyCommand("paddock.cli.commands.artifact:app", "Show and download plugin artifacts."),
    "serve": LazyCommand(
        "paddock.cli.commands.serve:serve", "Run the daemon: the enabled plugins, the HTTP API and the console."
    ),
    "mcp": LazyCommand("paddock.cli.commands.mcp:mcp", "Run an MCP server on stdin and stdout, for an MCP client."),
    "import": LazyCommand(
        "paddock.cli.commands.mcp_import.command:import_", "Import MCP servers from the settings of another client."
    ),
    "key": LazyCommand("paddock.cli.commands.key:app", "Create signing keys, and manage the keys that are trusted."),
    "login": LazyCommand("paddock.cli.commands.identity.login:login", "Print a one-time sign-in link for the console."),
    "tenant": LazyCommand(
        "paddock.cli.commands.identity.tenant:app",
        "Manage tenants. They are isolated from each other.",
    ),
    "user": LazyCommand(
        "paddock.cli.commands.identity.user:app", "Manage people, their roles, scopes, identities and sessions."
    ),
    "group": LazyCommand(
        "paddock.cli.commands.identity.group:app", "Manage groups of people. Policy rules refer to them."
    ),
    "apikey": LazyCommand("paddock.cli.commands.identity.apikey:app", "Manage API keys for programs."),
    "secret": LazyCommand("paddock.cli.commands.secret:app", "Manage the secrets of plugins. Values are never shown."),
    "webhook": LazyCommand("paddock.cli.commands.webhook:app", "Send signed events to other systems."),
    "consent": LazyCommand(
        "paddock.cli.commands.identity.consent:app", "Manage the consents of people, one for each callable."
    ),
    "inbox": LazyCommand("paddock.cli.commands.inbox:app", "List everything that needs you, and how to answer it."),
    "approval": LazyCommand("paddock.cli.commands.approval:app", "List approval requests, and approve or deny them."),
    "explain": LazyCommand(
        "paddock.cli.commands.explain:explain", "Explain a decision: the rule, and what would change it."
    ),
    "policy": LazyCommand("paddock.cli.commands.policy:app", "Check, show, test and try the policy rules."),
    "ledger": LazyCommand("paddock.cli.commands.ledger.group:app", "Show, verify, export and erase ledger entries."),
    "config": LazyCommand("paddock.cli.commands.config:app", "Show the settings and where each value comes from."),
    "doctor": LazyCommand(
        "paddock.cli.commands.doctor:doctor", "Check this machine, and print a command to fix each problem."
    ),
    "backup": LazyCommand("paddock.cli.commands.backup:backup", "Write the whole home into one file."),
    "restore": LazyCommand("paddock.cli.commands.backup:restore", "Restore a home from a backup."),
    "demo": LazyCommand("paddock.demo.command:demo", "Run a demo host with the example plugins."),
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
    help="Paddock: a plugin host for AI agents. Plugins run in a cage with exactly the capabilities that you granted.",
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
    gc.set_threshold(_GC_THRESHOLD)
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
        from paddock.core.error_formats import EXIT_INTERRUPTED

        report_interrupt(as_json=nothing_printed and "--json" in sys.argv)
        status = EXIT_INTERRUPTED
    status = flush_streams(status)
    gc.freeze()  # or Python's shutdown searches all that was loaded for garbage, which takes a fifth of a short command
    sys.exit(status)
