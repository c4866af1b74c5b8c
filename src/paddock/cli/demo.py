"""`paddock demo`: a host in a temporary home with the example plugins, some history, a second person, and a console."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.daemon import DaemonClient
    from paddock.cli.demo_daemon import DemoDaemon
    from paddock.cli.demo_history import Made
    from paddock.cli.demo_home import Installed
    from paddock.cli.demo_robin import Robin

app = typer.Typer(add_completion=False)

BROKEN = "broken-clock"


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the demo has made ready."""

    home: Path
    url: str
    installed: list[Installed]
    running: list[str]
    history: list[Made]
    robin: Robin
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
@reporting
def demo(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the console is; any free port without.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link, and open nothing.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End when everything is ready, on a terminal too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Open a console to try things out: example plugins, some history, and somebody who asks for your yes.

    Everything is in a temporary home. It goes on until Ctrl-C on a terminal, and leaves nothing behind.
    """
    from paddock.cli.demo_daemon import daemon_of, home_environment
    from paddock.cli.demo_home import temporary_home

    began = time.monotonic()
    with temporary_home() as home, daemon_of(home_environment(home, port), home / "serve.log") as daemon:
        shown = _made_ready(home, daemon, began)
        if as_json:
            document(shown.to_json())
            return
        _done(f"everything is ready after {shown.seconds:.1f} s")
        say()
        if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            say("That was all, and it is gone now. On a terminal, the demo goes on and its console opens.")
            return
        _invite(shown, opened=not no_browser and _open(shown.url))
        try:
            with shown.robin.around(shown.waiting):
                daemon.wait()
        except KeyboardInterrupt:
            say("\nStopping. Nothing of it is left behind.")


def _made_ready(home: Path, daemon: DemoDaemon, began: float) -> _Shown:
    """Fill the home while the daemon starts, then have things happen."""
    from paddock.cli.daemon import DaemonClient
    from paddock.cli.demo_client import KeyClient
    from paddock.cli.demo_history import make_history
    from paddock.cli.demo_home import furnish
    from paddock.cli.demo_robin import Robin
    from paddock.config.directories import find_directories
    from paddock.http.local_address import socket_path

    say(styled("Setting up a host in a temporary home …", "bold"))
    installed, key = furnish(home)
    _done(f"{len(installed)} example plugins in {len({one.dialect for one in installed})} manifest formats")
    link = daemon.link()
    url = link.partition("/login/")[0]
    _done(f"a host at {url}")
    operator, robins = DaemonClient(socket_path(find_directories(os.environ, Path.home()))), KeyClient(url, key)
    operator.post("/reconcile")
    history = make_history(robins, operator)
    _done(f"some history: {len(history)} calls that were allowed, approved, denied, or failed")
    robin = Robin(robins, _done)
    waiting = robin.ask_first()
    return _Shown(home, link, installed, _running(operator), history, robin, waiting, time.monotonic() - began)


def _running(operator: DaemonClient) -> list[str]:
    """The names of the plugins that run; why others do not is said, but for the one that is meant to fail."""
    names: list[str] = []
    for one in operator.get("/plugins")["plugins"]:
        runtime: dict[str, Any] = one.get("runtime") or {}
        if runtime.get("state") == "running":
            names.append(one["name"])
        elif runtime.get("reason") and one["name"] != BROKEN:
            say(f"  {styled('!', 'yellow')} {one['name']} does not run: {printable(runtime['reason'], 200)}")
    return names


def _invite(shown: _Shown, *, opened: bool) -> None:
    where = "The console opens in your browser; if not, this link does it" if opened else "Open the console with this"
    say(styled(f"{where}. It signs you in, once:", "bold"))
    say()
    result(f"  {shown.url}")
    say()
    say("The first page shows you around in six steps. In another terminal, the command line has the same host:")
    say(f"  export PADDOCK_HOME={shown.home}")
    say("  ./run paddock plugin list")
    say()
    say("Ctrl-C ends it and removes everything.")


def _open(url: str) -> bool:
    """Open the console in a browser with a window; where there is no display there is none."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _done(words: str) -> None:
    say(f"  {styled('✓', 'green')} {words}")
