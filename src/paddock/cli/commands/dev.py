"""`paddock dev`: run a plugin from its folder, and reload it whenever a file is saved."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.secret_input import read_secret_files
from paddock.cli.command import command
from paddock.cli.output.report import print_error, print_result
from paddock.core.error_formats import error_to_json, exit_code
from paddock.core.errors import PaddockError

if TYPE_CHECKING:
    from paddock.authoring.dev_session import RepeatedCall
    from paddock.core.secret import Secret
    from paddock.manifest.model import Manifest


@command(
    "dev",
    examples=[
        "paddock dev ./my-plugin",
        """paddock dev ./my-plugin --call greet --params '{"name": "Ann"}' --once --yes""",
    ],
)
@click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of the plugin.",
)
@click.option("--call", metavar="NAME", help="A callable to call after every load.")
@click.option("--params", "-p", default="{}", metavar="JSON", help="The parameters of --call; @FILE reads a file.")
@click.option("--config", default="{}", metavar="JSON", help="The plugin's configuration; @FILE reads a file.")
@options.secret
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where its tables and files are stored. [default: a temporary home]",
)
@click.option("--traffic/--no-traffic", default=True, help="Show the protocol messages, with secrets masked.")
@click.option("--once", is_flag=True, help="Exit after the first load and --call.")
@options.yes
@click.option("--json", "as_json", is_flag=True, help="Print every event as one JSON object per line on stdout.")
def dev(
    directory: Path,
    *,
    call: str | None,
    params: str,
    config: str,
    secret: tuple[str, ...],
    home: Path | None,
    traffic: bool,
    once: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Run a plugin from its folder without installing it, and reload it whenever a file changes.

    If a version cannot be loaded, the previous one keeps running. On a terminal, type a callable and its parameters to
    call it, or: reload, allow, cancel, traffic, logs, tools, help, quit.
    """
    from paddock.authoring.dev_session import RepeatedCall
    from paddock.cli.client.event_loop import run_async
    from paddock.cli.commands.call.make import read_parameters
    from paddock.manifest.read import read_package

    manifest = read_package(directory).single()
    repeated_call = RepeatedCall(call, read_parameters(params, call)) if call else None
    settings, secrets = read_parameters(config), read_secret_files(secret)
    _confirm_capabilities(manifest, yes=yes, retype=f"paddock dev {directory}")
    with _open_home(home) as home_path:
        status = run_async(
            _run_session(
                directory.resolve(),
                home_path,
                manifest,
                repeated_call,
                settings,
                secrets,
                persistent=home is not None,
                traffic=traffic,
                once=once,
                as_json=as_json,
            )
        )
    raise click.exceptions.Exit(status)


def _confirm_capabilities(manifest: Manifest, *, yes: bool, retype: str) -> None:
    """Show the plugin's capabilities once, and ask; changes within them are not asked about again."""
    from paddock.cli.output.consent_prompt import confirm, print_consent_screen
    from paddock.manifest.consent_text import consent_sections
    from paddock.manifest.permissions import requested_capabilities
    from paddock.plugins.install.consent_screen import ConsentScreen

    heading = f"{manifest.display_name} {manifest.version}"
    screen = ConsentScreen(heading, (("id", manifest.name),), tuple(consent_sections(manifest)), f"Run {heading}?")
    if not yes:
        print_consent_screen(screen.to_value())
        details = {"capabilities": [str(item) for item in requested_capabilities(manifest)]}
        confirm(screen.question, yes=yes, retype=retype, details=details)


@contextmanager
def _open_home(home: Path | None) -> Generator[Path, None, None]:
    if home is not None:
        yield home.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="paddock-dev-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def _run_session(
    folder: Path,
    home: Path,
    manifest: Manifest,
    repeated_call: RepeatedCall | None,
    config: Mapping[str, Any],
    secrets: Mapping[str, Secret],
    *,
    persistent: bool,
    traffic: bool,
    once: bool,
    as_json: bool,
) -> int:
    import anyio

    from paddock.authoring.dev_session import DevSession
    from paddock.authoring.file_watcher import scan_folder
    from paddock.authoring.traffic import DevEventReporter
    from paddock.cli.output.input_line import open_input_line
    from paddock.core.clock import SystemClock
    from paddock.daemon.run import stop_on_signals
    from paddock.host.dev.open_dev_host import open_dev_host
    from paddock.manifest.permissions import requested_capabilities

    with (
        anyio.CancelScope() as scope,
        stop_on_signals(scope, lambda: None) as stop,
        open_input_line() as line,
    ):
        report = _print_json_event if as_json else _DevEventPrinter(line.print_above if line else print_result)
        reporter = DevEventReporter(manifest, report, SystemClock(), shows_traffic=traffic)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
        dev_host = open_dev_host(
            home,
            folder,
            reporter,
            environ=environ,
            tap=reporter.new_decoder,
            config=config,
            secrets=secrets,
            lasting=persistent,
        )
        try:
            async with dev_host as workshop:
                session = DevSession(workshop, reporter, requested_capabilities(manifest), repeated_call)
                snapshot = scan_folder(folder)
                await session.start(await workshop.take_snapshot())
                if once:
                    await session.wait_for_calls()
                    return 1 if session.failed else 0
                report({"event": "watching", "folder": str(folder), "home": str(home)})
                await session.follow(snapshot, line.lines() if line else None, stop)
        except PaddockError as error:
            if not as_json:
                raise
            _print_json_event({"event": "error", "error": error_to_json(error)})
            print_error(error)
            return exit_code(error)
    return 0


class _DevEventPrinter:
    """Prints events as text."""

    def __init__(self, print_line: Any) -> None:
        self._print_line = print_line

    def __call__(self, event: dict[str, Any]) -> None:
        from paddock.cli.commands.dev_text import describe_dev_event

        if event["event"] == "watching":
            self._print_line(f"following {event['folder']}; type 'help' for what can be typed, Ctrl-C ends")
            sys.stdout.flush()
            return
        for text in describe_dev_event(event):
            self._print_line(text)
        sys.stdout.flush()


def _print_json_event(event: dict[str, Any]) -> None:
    print_result(json.dumps(event, ensure_ascii=True, default=str))
    sys.stdout.flush()
