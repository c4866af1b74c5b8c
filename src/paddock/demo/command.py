"""`paddock demo`: a host in a temporary home with the example plugins, history, a simulated user and a console."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, print_result, styled
from paddock.core.action import Action
from paddock.core.errors import HostError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.demo.daemon_process import DemoDaemon
    from paddock.demo.history import DemoCall
    from paddock.demo.home import DemoPlugin
    from paddock.demo.simulated_user import SimulatedUser


BROKEN_PLUGIN = "broken-clock"


class _DemoState(Struct, frozen=True):
    """The prepared demo."""

    home: Path
    url: str
    installed: list[DemoPlugin]
    running: list[str]
    history: list[DemoCall]
    robin: SimulatedUser
    waiting: str | None  # the id of Robin's first call
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "home": str(self.home),
            "url": self.url,
            "installed": [plugin.to_json() for plugin in self.installed],
            "running": self.running,
            "calls": [call.to_json() for call in self.history],
            "waiting": self.waiting,
            "ready_after_s": round(self.seconds, 2),
        }


@command("demo", examples=["paddock demo", "paddock demo --stay --port 8080 --no-browser"])
@click.option(
    "--port", type=click.IntRange(min=0, max=65535), default=0, help="The port of the console. [default: any free port]"
)
@click.option("--no-browser", is_flag=True, help="Print the link instead of opening a browser.")
@click.option("--stay", is_flag=True, help="Run until a signal ends it, also without a terminal.")
@click.option("--once", is_flag=True, help="Exit after the setup, also on a terminal.")
@options.as_json
def demo(*, port: int, no_browser: bool, stay: bool, once: bool, as_json: bool) -> None:
    """Run a demo host: the console, the example plugins, sample history, and a simulated user who requests approvals.

    All data is in a temporary home, which is removed at the end. On a terminal, and with --stay, the demo runs until
    Ctrl-C.
    """
    from paddock.demo.daemon_process import home_environment, start_daemon
    from paddock.demo.home import temporary_home

    if stay and once:
        raise click.UsageError("choose one: --stay runs on, and --once ends after the setup")
    stays = stay or (not (once or as_json) and sys.stdin.isatty() and sys.stdout.isatty())
    started = time.monotonic()
    with temporary_home() as home, start_daemon(home_environment(home, port), home / "serve.log") as daemon:
        state = _prepare_demo(home, daemon, started)
        if as_json:
            print_json(state.to_json())
        if not stays:
            print_message(f"\nThat took {state.seconds:.1f} s. The demo ends here, and removes everything.")
            print_message("To keep it, and to open its console: paddock demo --stay")
            return
        _print_step(f"{len(state.running)} plugins run; ready after {state.seconds:.1f} s")
        print_message()
        if not as_json:
            _print_welcome(state, opened=not no_browser and _open_browser(state.url))
        try:
            with state.robin.run_beside(state.waiting):
                daemon.wait()
        except KeyboardInterrupt:
            print_message("\nStopping. Nothing of it is left behind.")


def _prepare_demo(home: Path, daemon: DemoDaemon, started: float) -> _DemoState:
    """Populate the home while the daemon starts, then make the history."""
    from paddock.cli.client.api_client import ApiClient
    from paddock.cli.client.unix_socket_transport import UnixSocketTransport
    from paddock.config.directories import find_directories
    from paddock.demo.api_client import ApiKeyClient
    from paddock.demo.history import make_history
    from paddock.demo.home import populate_home
    from paddock.demo.simulated_user import SimulatedUser
    from paddock.web.daemon_address import socket_path

    print_message(styled("Setting up a host in a temporary home …", "bold"))
    installed, key = populate_home(home)
    _print_step(f"{len(installed)} example plugins in {len({plugin.dialect for plugin in installed})} manifest formats")
    link = daemon.wait_for_login_link()
    url = link.partition("/login/")[0]
    _print_step(f"a host at {url}")
    socket = socket_path(find_directories(os.environ, Path.home()))
    operator, client = ApiClient(UnixSocketTransport(socket)), ApiKeyClient(url, key)
    operator.post("/reconcile")
    history = make_history(client, operator)
    running = _running_plugins(operator)
    if not running:
        raise HostError(
            "no plugin runs on this machine, so there is nothing to show",
            code="demo.nothing_runs",
            action=Action.of("host.check"),
        )
    _print_step(f"some history: {len(history)} calls that were allowed, approved, denied, or failed")
    robin = SimulatedUser(client, _print_step)
    waiting = robin.make_first_request()
    return _DemoState(home, link, installed, running, history, robin, waiting, time.monotonic() - started)


def _running_plugins(operator: ApiClient) -> list[str]:
    """Return the names of the running plugins; print why others do not run, except the one meant to fail."""
    names: list[str] = []
    for plugin in operator.get("/plugins")["plugins"]:
        runtime: dict[str, Any] = plugin.get("runtime") or {}
        if runtime.get("state") == "running":
            names.append(plugin["name"])
        elif runtime.get("reason") and plugin["name"] != BROKEN_PLUGIN:
            print_message(
                f"  {styled('!', 'yellow')} {plugin['name']} does not run: {printable(runtime['reason'], 200)}"
            )
    return names


def _print_welcome(state: _DemoState, *, opened: bool) -> None:
    instruction = (
        "The console opens in your browser; if not, this link does it" if opened else "Open the console with this"
    )
    print_message(styled(f"{instruction}. It signs you in, once:", "bold"))
    print_message()
    print_result(f"  {state.url}")
    print_message()
    print_message(
        "The first page shows you around in six steps. In another terminal, the command line has the same host:"
    )
    print_message(f"  export PADDOCK_HOME={state.home}")
    print_message("  ./run paddock plugin list")
    print_message()
    print_message("Ctrl-C ends it and removes everything.")


def _open_browser(url: str) -> bool:
    """Open the console in a browser, if there is a display."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _print_step(message: str) -> None:
    print_message(f"  {styled('✓', 'green')} {message}")
