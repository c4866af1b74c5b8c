"""`paddock demo`: the example plugins in a temporary home, a daemon that runs two of them, and a few calls."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, say, styled
from paddock.core.errors import TimedOut
from paddock.core.printable import printable

app = typer.Typer(add_completion=False)

CONSENT_SHOWN = "fourth-generation-formula"
STARTED = ("slow-count", "memory-markdown")  # each needs nothing but Python
CALLED = "slow-count.count", {"to": 3, "pause_ms": 200}
CUT_SHORT = "slow-count.squares", {"to": 1000, "pause_ms": 200}
ENOUGH = 1.0  # seconds
PATIENCE = 10.0  # with a plugin that was cut short, until it writes


@app.command("demo", epilog="Example: paddock demo --once")
@reporting
def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="End when everything was shown, on a terminal too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install the example plugins into a temporary home, run two, call them, and go on until Ctrl-C on a terminal."""
    from paddock.cli.demo_daemon import daemon_of, home_environment

    with _temporary_home() as home:
        installed = _install_examples(home, quiet=as_json)
        if not as_json:
            _heading(f"{len(installed)} example plugins, one for each way a manifest can be written:")
            _show_list()
        with daemon_of(home_environment(home), home / "serve.log") as daemon:
            started = _start(quiet=as_json)
            calls = _call(quiet=as_json) if "slow-count" in started else []
            if as_json:
                document({"installed": installed, "started": started, "calls": calls})
                return
            _show_how_they_are_doing(started)
            if once or not sys.stdin.isatty() or not sys.stdout.isatty():
                say("The daemon and its home are gone now. Next: ./run paddock plugin install examples/slow-count")
                return
            _invite(home)
            try:
                daemon.wait()
            except KeyboardInterrupt:
                say("\nstopping; the temporary home goes too")


@contextmanager
def _temporary_home() -> Generator[Path, None, None]:
    """A home for this process and those it starts, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="paddock-demo-") as folder:
        for name in [name for name in os.environ if name.startswith("PADDOCK_")]:
            del os.environ[name]
        os.environ["PADDOCK_HOME"] = folder
        yield Path(folder)


def _install_examples(home: Path, *, quiet: bool) -> list[dict[str, str]]:
    from paddock.cli.consent import show_screen
    from paddock.cli.opening import at_this_machine
    from paddock.core.errors import NotFound
    from paddock.host.command import open_for_command
    from paddock.plugins.consent import install_screen
    from paddock.plugins.examples import example_plugins
    from paddock.plugins.install import commit
    from paddock.plugins.preparing import prepare
    from paddock.plugins.sources import parse_source

    directories = example_plugins()
    if not directories:
        raise NotFound(
            "the example plugins are not here", code="demo.no_examples", hint="run it from a checkout: ./run demo"
        )
    installed: list[dict[str, str]] = []
    with open_for_command(os.environ, home) as host:
        for directory in directories:
            with prepare(host.plugins, parse_source(str(directory))) as prepared:
                if prepared.manifest.name == CONSENT_SHOWN and not quiet:
                    _heading("Before a plugin is installed, you see what it will do:")
                    show_screen(install_screen(prepared))
                row = commit(host.plugins.used_by(at_this_machine()), prepared, prepared.to_acknowledge)
                installed.append({"name": row.plugin, "version": row.version, "dialect": row.dialect})
    return installed


def _start(*, quiet: bool) -> list[str]:
    """Enable those that need nothing but Python; the names of those that run."""
    from paddock.cli.daemon import DaemonClient, part
    from paddock.config.directories import find_directories
    from paddock.http.local_address import socket_path

    daemon = DaemonClient(socket_path(find_directories(os.environ, Path.home())))
    if not quiet:
        _heading("A daemon runs now, and starts two of them, each in a cage of its own:")
    running: list[str] = []
    for name in STARTED:
        _typed(f"paddock plugin enable {name}", quiet=quiet)
        started: dict[str, Any] = daemon.post(f"/plugins/{part(name)}/enable")
        if started["state"] == "running":
            running.append(name)
            _said(f"{styled('✓', 'green')} {name} runs (pid {started['pid']})", quiet=quiet)
        else:
            _said(f"{styled('!', 'yellow')} {name} does not run: {printable(started['reason'], 400)}", quiet=quiet)
            _said(f"  {styled('→', 'dim')} {printable(started['hint'] or 'paddock doctor', 400)}", quiet=quiet)
    return running


def _call(*, quiet: bool) -> list[dict[str, Any]]:
    """One call to its end, and one that nobody waits for; both as data."""
    import json

    from paddock.cli.call import by_the_running_daemon

    calls: list[dict[str, Any]] = []
    if not quiet:
        _heading("One call to its end, and one that nobody waits for:")
    for (name, params), seconds in ((CALLED, None), (CUT_SHORT, ENOUGH)):
        limit = f" --timeout {seconds:g}" if seconds else ""
        _typed(f"paddock call {name} --params '{json.dumps(params)}'{limit}", quiet=quiet)
        try:
            made = by_the_running_daemon(name, params, seconds)
        except TimedOut as error:
            calls.append({"name": name, "params": params, "error": error.error_code})
            _said(f"{error.message}: {error.hint}", quiet=quiet)
        else:
            calls.append({"name": name, "params": params, "result": made["result"]})
            _said(json.dumps(made["result"]), quiet=quiet)
    return calls


def _show_how_they_are_doing(started: list[str]) -> None:
    from paddock.cli.plugin_logs import logs
    from paddock.cli.plugin_views import info

    _heading("How they are doing:")
    _typed("paddock plugin list")
    _show_list()
    for name in started[:1]:
        say()
        _typed(f"paddock plugin info {name}")
        info(name, as_json=False)
        say()
        _typed(f"paddock plugin logs {name}")
        _let_it_write(name)
        logs(name, lines=5, follow=False, as_json=False)
    say()
    say("The others are installed to be looked at; see 'What works today' in README.md.")
    say("Every call above passed the rules (paddock policy show) and stands in the ledger (paddock ledger tail).")
    say()


def _let_it_write(name: str) -> None:
    """Wait for its first line: whoever was cut short stops at its next step, and says so a moment later."""
    from paddock.cli.daemon import part, require_daemon

    with (
        suppress(TimedOut),
        require_daemon("demo").events(f"/plugins/{part(name)}/logs?follow=1&lines=1", wait=PATIENCE) as lines,
    ):
        next(lines, None)


def _show_list() -> None:
    from paddock.cli.plugin_views import list_

    list_(kind=None, verbose=False, as_json=False)
    say()


def _invite(home: Path) -> None:
    _heading("The daemon goes on until Ctrl-C. In another terminal:")
    say(f"  export PADDOCK_HOME={home}")
    say("  ./run paddock plugin list")
    say("  ./run paddock call slow-count.squares --params '{\"to\": 5}'")


def _heading(words: str) -> None:
    say(styled(words, "bold"))
    say()


def _typed(command: str, *, quiet: bool = False) -> None:
    _said(styled(f"$ {command}", "cyan"), quiet=quiet)


def _said(words: str, *, quiet: bool) -> None:
    if not quiet:
        say(words)
