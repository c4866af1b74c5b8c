"""`paddock dev`: a plugin from its folder, started again whenever a file of it is saved."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.given_secrets import GivenSecrets, secrets_from
from paddock.cli.output import Yes, reporting, result, show_error
from paddock.core.errors import PaddockError
from paddock.core.outward import exit_code, to_json

if TYPE_CHECKING:
    from paddock.authoring.session import RepeatedCall
    from paddock.core.secret import Secret
    from paddock.manifest.model import Manifest

app = typer.Typer(add_completion=False)

EXAMPLES = (
    "Examples: paddock dev ./my-plugin"
    """   ·   paddock dev ./my-plugin --call greet --params '{"name": "Ann"}' --once --yes"""
)


@app.command("dev", epilog=EXAMPLES)
@reporting
def dev(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The plugin's folder.", exists=True, file_okay=False)
    ],
    *,
    call: Annotated[
        str | None, typer.Option("--call", metavar="NAME", help="Call this whenever the plugin was loaded.")
    ] = None,
    params: Annotated[
        str, typer.Option("--params", "-p", metavar="JSON", help="The parameters of --call; @FILE reads a file.")
    ] = "{}",
    config: Annotated[
        str, typer.Option("--config", metavar="JSON", help="The plugin's settings; @FILE reads a file.")
    ] = "{}",
    secret: GivenSecrets = None,
    home: Annotated[
        Path | None,
        typer.Option("--home", metavar="DIR", help="Keep its tables and files here; a temporary home when left out."),
    ] = None,
    traffic: Annotated[
        bool, typer.Option("--traffic/--no-traffic", help="Show what goes over the wire, secrets masked.")
    ] = True,
    once: Annotated[bool, typer.Option("--once", help="End after the first load and --call.")] = False,
    yes: Yes = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event as one JSON object a line, on stdout.")
    ] = False,
) -> None:
    """Run a plugin from its folder without installing it, and load it again whenever a file is saved.

    A version that cannot be read or does not start leaves the last one serving. On a terminal, type a callable and its
    parameters to call it, or: reload, allow, cancel, traffic, logs, tools, help, quit.
    """
    from paddock.authoring.session import RepeatedCall
    from paddock.cli.call import parameters
    from paddock.cli.event_loop import run
    from paddock.manifest.read import read_package

    manifest = read_package(directory).single()
    repeated = RepeatedCall(call, parameters(params, call)) if call else None
    settings, secrets = parameters(config), secrets_from(secret)
    _agree(manifest, yes=yes, retype=f"paddock dev {directory}")
    with _home(home) as place:
        status = run(
            _session(
                directory.resolve(),
                place,
                manifest,
                repeated,
                settings,
                secrets,
                lasting=home is not None,
                traffic=traffic,
                once=once,
                as_json=as_json,
            )
        )
    raise typer.Exit(status)


def _agree(manifest: Manifest, *, yes: bool, retype: str) -> None:
    """Show once what the plugin will be able to do, and ask; changes that stay within it are not asked about again."""
    from paddock.cli.consent import confirm, show_screen
    from paddock.manifest.asked import asked_of
    from paddock.manifest.behaviour import consent_sections
    from paddock.plugins.consent import Screen

    heading = f"{manifest.display_name} {manifest.version}"
    screen = Screen(heading, (("id", manifest.name),), tuple(consent_sections(manifest)), f"Run {heading}?")
    if not yes:
        show_screen(screen)
        details = {"capabilities": [str(one) for one in asked_of(manifest)]}
        confirm(screen.question, yes=yes, retype=retype, details=details)


@contextmanager
def _home(given: Path | None) -> Generator[Path, None, None]:
    if given is not None:
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="paddock-dev-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def _session(
    folder: Path,
    home: Path,
    manifest: Manifest,
    repeated: RepeatedCall | None,
    config: Mapping[str, Any],
    secrets: Mapping[str, Secret],
    *,
    lasting: bool,
    traffic: bool,
    once: bool,
    as_json: bool,
) -> int:
    import anyio

    from paddock.authoring.listening import Listening
    from paddock.authoring.session import Session
    from paddock.authoring.watching import look_at
    from paddock.cli.input_line import input_line
    from paddock.cli.serving import stopping_at_signals
    from paddock.core.clock import SystemClock
    from paddock.host.workshop.opening import open_workshop
    from paddock.manifest.asked import asked_of

    with anyio.CancelScope() as everything, stopping_at_signals(everything, lambda: None) as stop, input_line() as line:
        tell = _json_lines if as_json else _Words(line.say if line else result)
        listening = Listening(manifest, tell, SystemClock(), shows_traffic=traffic)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
        opened = open_workshop(
            home,
            folder,
            listening,
            environ=environ,
            tap=listening.tap,
            config=config,
            secrets=secrets,
            lasting=lasting,
        )
        try:
            async with opened as workshop:
                session = Session(workshop, listening, asked_of(manifest), repeated)
                known = look_at(folder)
                await session.start(await workshop.look())
                if once:
                    await session.answered()
                    return 1 if session.failed else 0
                tell({"event": "watching", "folder": str(folder), "home": str(home)})
                await session.follow(known, line.lines() if line else None, stop)
        except PaddockError as error:
            if not as_json:
                raise
            _json_lines({"event": "error", "error": to_json(error)})
            show_error(error)
            return exit_code(error)
    return 0


class _Words:
    """Events for people."""

    def __init__(self, line: Any) -> None:
        self._line = line

    def __call__(self, event: dict[str, Any]) -> None:
        from paddock.cli.dev_words import in_words

        if event["event"] == "watching":
            self._line(f"following {event['folder']}; type 'help' for what can be typed, Ctrl-C ends")
            sys.stdout.flush()
            return
        for text in in_words(event):
            self._line(text)
        sys.stdout.flush()


def _json_lines(event: dict[str, Any]) -> None:
    result(json.dumps(event, ensure_ascii=True, default=str))
    sys.stdout.flush()
