"""`paddock demo`: a host in a temporary home with the example plugins, some history, a second person, and a console."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output.report import JsonOption, handle_errors, print_json, print_message, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.daemon_client import DaemonClient
    from paddock.demo.daemon_process import DemoDaemon
    from paddock.demo.history import DemoCall
    from paddock.demo.home import DemoPlugin
    from paddock.demo.simulated_user import SimulatedUser

app = typer.Typer(add_completion=False)

BROKEN_PLUGIN = "broken-clock"


@dataclass(frozen=True, slots=True)
class _DemoState:
    """What the demo has made ready."""

    home: Path
    url: str
    installed: list[DemoPlugin]
    running: list[str]
    history: list[DemoCall]
    robin: SimulatedUser
    waiting: str | None  # Robin's first call
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "home": str(self.home),
            "url": self.url,
            "installed": [one.to_json() for one in self.installed],
            "running": self.running,
            "calls": [one.to_json() for one in self.history],
            "waiting": self.waiting,
            "ready_after_s": round(self.seconds, 2),
        }


@app.command("demo", epilog="Examples: paddock demo   ·   paddock demo --port 8080 --no-browser")
@handle_errors
def demo(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the console is; any free port without.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link, and open nothing.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End when everything is ready, on a terminal too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Open a console to try things out: example plugins, some history, and somebody who asks for your yes.

    Everything is in a temporary home. It goes on until Ctrl-C on a terminal, and leaves nothing behind.
    """
    from paddock.demo.daemon_process import home_environment, start_daemon
    from paddock.demo.home import temporary_home

    began = time.monotonic()
    with temporary_home() as home, start_daemon(home_environment(home, port), home / "serve.log") as daemon:
        shown = _prepare_demo(home, daemon, began)
        if as_json:
            print_json(shown.to_json())
            return
        _print_step(f"everything is ready after {shown.seconds:.1f} s")
        print_message()
        if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            print_message("That was all, and it is gone now. On a terminal, the demo goes on and its console opens.")
            return
        _print_welcome(shown, opened=not no_browser and _open_browser(shown.url))
        try:
            with shown.robin.run_beside(shown.waiting):
                daemon.wait()
        except KeyboardInterrupt:
            print_message("\nStopping. Nothing of it is left behind.")


def _prepare_demo(home: Path, daemon: DemoDaemon, began: float) -> _DemoState:
    """Fill the home while the daemon starts, then have things happen."""
    from paddock.cli.client.daemon_client import DaemonClient
    from paddock.config.directories import find_directories
    from paddock.demo.api_client import ApiKeyClient
    from paddock.demo.history import make_history
    from paddock.demo.home import populate_home
    from paddock.demo.simulated_user import SimulatedUser
    from paddock.web.daemon_address import socket_path

    print_message(styled("Setting up a host in a temporary home …", "bold"))
    installed, key = populate_home(home)
    _print_step(f"{len(installed)} example plugins in {len({one.dialect for one in installed})} manifest formats")
    link = daemon.wait_for_login_link()
    url = link.partition("/login/")[0]
    _print_step(f"a host at {url}")
    operator, robins = DaemonClient(socket_path(find_directories(os.environ, Path.home()))), ApiKeyClient(url, key)
    operator.post("/reconcile")
    history = make_history(robins, operator)
    _print_step(f"some history: {len(history)} calls that were allowed, approved, denied, or failed")
    robin = SimulatedUser(robins, _print_step)
    waiting = robin.make_first_request()
    return _DemoState(
        home, link, installed, _running_plugins(operator), history, robin, waiting, time.monotonic() - began
    )


def _running_plugins(operator: DaemonClient) -> list[str]:
    """The names of the plugins that run; why others do not is said, but for the one that is meant to fail."""
    names: list[str] = []
    for one in operator.get("/plugins")["plugins"]:
        runtime: dict[str, Any] = one.get("runtime") or {}
        if runtime.get("state") == "running":
            names.append(one["name"])
        elif runtime.get("reason") and one["name"] != BROKEN_PLUGIN:
            print_message(f"  {styled('!', 'yellow')} {one['name']} does not run: {printable(runtime['reason'], 200)}")
    return names


def _print_welcome(shown: _DemoState, *, opened: bool) -> None:
    where = "The console opens in your browser; if not, this link does it" if opened else "Open the console with this"
    print_message(styled(f"{where}. It signs you in, once:", "bold"))
    print_message()
    print_result(f"  {shown.url}")
    print_message()
    print_message(
        "The first page shows you around in six steps. In another terminal, the command line has the same host:"
    )
    print_message(f"  export PADDOCK_HOME={shown.home}")
    print_message("  ./run paddock plugin list")
    print_message()
    print_message("Ctrl-C ends it and removes everything.")


def _open_browser(url: str) -> bool:
    """Open the console in a browser with a window; where there is no display there is none."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _print_step(words: str) -> None:
    print_message(f"  {styled('✓', 'green')} {words}")
