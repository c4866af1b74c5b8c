"""`paddock serve`: the daemon, in the foreground, until a signal ends it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Annotated, Any, cast

import typer

from paddock.cli.outlet import Outlet, open_outlet
from paddock.cli.output import AsJson, reporting, show_error, styled
from paddock.core.errors import PaddockError
from paddock.core.outward import exit_code, to_json
from paddock.core.printable import printable

app = typer.Typer(add_completion=False)

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
AT_THE_END = 0.5  # seconds that the last words may take


@app.command("serve", epilog="Example: paddock serve --log-format json")
@reporting
def serve(
    *,
    log_format: Annotated[str, typer.Option(metavar="FORM", help="Log lines on stderr as text or json.")] = "text",
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help=f"Least important message: {', '.join(LEVELS)}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the enabled plugins and take calls until stopped. Ctrl-C or SIGTERM lets calls finish; twice, it does not."""
    _one_of(log_format, FORMATS, "--log-format")
    _one_of(log_level or LEVELS[0], LEVELS, "--log-level")

    from paddock.cli.event_loop import run
    from paddock.cli.log_lines import Format, log_to, lost_lines
    from paddock.cli.serving import serve_until_stopped

    form = cast("Format", log_format)
    lost_words = _lost_events if as_json else lost_lines("text")
    with open_outlet(sys.stdout, lost_words) as out, open_outlet(sys.stderr, lost_lines(form)) as err:
        tell = _tell_json(out) if as_json else _Words(out, err).tell

        def configure_log(level: str) -> None:
            log_to(err, form, log_level or level)

        def tell_to_the_end(told: dict[str, Any]) -> None:
            tell(told)
            if told["event"] == "stopped":  # this process may be gone at once
                out.flush(AT_THE_END)

        try:
            status = run(serve_until_stopped(tell_to_the_end, configure_log))
        except PaddockError as error:
            if not as_json:
                raise
            tell({"event": "error", "error": to_json(error)})  # one object a line, this one too
            show_error(error)
            status = exit_code(error)
    raise typer.Exit(status)


def _one_of(written: str, known: tuple[str, ...], option: str) -> None:
    if written not in known:
        raise typer.BadParameter(f"{printable(written)} is not one of {', '.join(known)}", param_hint=option)


def _tell_json(out: Outlet) -> Callable[[dict[str, Any]], None]:
    return lambda told: out.line(json.dumps(told, ensure_ascii=True))


def _lost_events(count: int) -> str:
    return json.dumps({"event": "lost", "count": count})


def _counted(told: dict[str, Any]) -> str:
    """How many plugins run; and how many do not yet, where there are such."""
    running, starting, waiting = told["running"], told["starting"], told["on_demand"]
    words = ["1 plugin runs" if running == 1 else f"{running} plugins run"]
    words += [f"{starting} starting"] if starting else []
    words += ["1 starts when called" if waiting == 1 else f"{waiting} start when called"] if waiting else []
    return ", ".join(words)


def _doubted(count: int) -> str:
    what = "1 call" if count == 1 else f"{count:,} calls"
    return f"{what} may have happened, and nobody knows"


class _Words:
    """The same for people: which plugins do not start, that the daemon is ready, and that it is gone.

    Those that take their time are told of when they run or do not. What happens to plugins later stands in the log.
    """

    def __init__(self, out: Outlet, err: Outlet) -> None:
        self._out = out
        self._err = err
        self._ready = False
        self._starting: set[str] = set()

    def tell(self, told: dict[str, Any]) -> None:
        match told["event"]:
            case "ready":
                self._ready = True
                where = f"{told['url']} and {told['socket']}" if told["url"] else told["socket"]
                self._out.line(f"ready: {_counted(told)}; listening on {where} (pid {told['pid']})")
                if told["in_doubt"]:
                    self._err.line(f"{styled('!', 'yellow')} {_doubted(told['in_doubt'])}: paddock run doubt list")
            case "login":
                self._err.line(f"sign in at the console, once and within a quarter of an hour: {told['url']}")
            case "plugin":
                self._tell_of_start(told)
            case "draining":
                self._err.line("stopping: calls under way may finish; once more to end now")
            case "stopped":
                self._out.line("stopped")
            case _:
                pass

    def _tell_of_start(self, told: dict[str, Any]) -> None:
        name, late = told["name"], told["name"] in self._starting
        if told["state"] == "spawning":
            self._starting |= set() if self._ready else {name}
            return
        self._starting.discard(name)
        if told["reason"] and (late or not self._ready):
            self._err.line(f"{styled('!', 'yellow')} {name} {told['state']}: {printable(told['reason'], 400)}")
            if told["hint"]:
                self._err.line(f"  {styled('→', 'dim')} {printable(told['hint'], 400)}")
        elif late and told["state"] == "running":
            self._err.line(f"{styled('✓', 'green')} {name} runs")
