"""`paddock serve`: the daemon, in the foreground, until a signal ends it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, cast

import typer

from paddock.cli.output import AsJson, reporting, result, say, show_error, styled
from paddock.core.errors import HostError, PaddockError
from paddock.core.outward import exit_code, to_json
from paddock.core.printable import printable

app = typer.Typer(add_completion=False)

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


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
    from paddock.cli.log_lines import Format, log_to_stderr
    from paddock.cli.serving import serve_until_stopped

    def configure_log(level: str) -> None:
        log_to_stderr(cast("Format", log_format), log_level or level)

    if not as_json:
        raise typer.Exit(run(serve_until_stopped(_to_whoever_listens(_Words().tell), configure_log)))
    try:
        status = run(serve_until_stopped(_to_whoever_listens(_tell_json), configure_log))
    except PaddockError as error:  # one object a line, this one too
        _tell_json({"event": "error", "error": to_json(error)})
        show_error(error)
        status = exit_code(error)
    raise typer.Exit(status)


def _one_of(written: str, known: tuple[str, ...], option: str) -> None:
    if written not in known:
        raise typer.BadParameter(f"{printable(written)} is not one of {', '.join(known)}", param_hint=option)


def _to_whoever_listens(tell: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """A daemon outlives those who read its words."""

    def tell_if_possible(told: dict[str, Any]) -> None:
        with suppress(OSError, HostError):
            tell(told)

    return tell_if_possible


def _tell_json(told: dict[str, Any]) -> None:
    import json

    result(json.dumps(told, ensure_ascii=True))
    sys.stdout.flush()


class _Words:
    """The same for people: which plugins do not start, that the daemon is ready, and that it is gone.

    Those that take their time are told of when they run or do not. What happens to plugins later stands in the log.
    """

    def __init__(self) -> None:
        self._ready = False
        self._starting: set[str] = set()

    def tell(self, told: dict[str, Any]) -> None:
        match told["event"]:
            case "ready":
                self._ready = True
                count, starting = told["running"], told["starting"]
                plugins = "1 plugin runs" if count == 1 else f"{count} plugins run"
                more = f", {starting} starting" if starting else ""
                result(f"ready: {plugins}{more}; listening on {told['socket']} (pid {told['pid']})")
            case "plugin":
                self._tell_of_start(told)
            case "draining":
                say("stopping: calls under way may finish; once more to end now")
            case "stopped":
                result("stopped")
            case _:
                pass
        sys.stdout.flush()

    def _tell_of_start(self, told: dict[str, Any]) -> None:
        name, late = told["name"], told["name"] in self._starting
        if told["state"] == "spawning":
            self._starting |= set() if self._ready else {name}
            return
        self._starting.discard(name)
        if told["reason"] and (late or not self._ready):
            say(f"{styled('!', 'yellow')} {name} {told['state']}: {printable(told['reason'], 400)}")
            if told["hint"]:
                say(f"  {styled('→', 'dim')} {printable(told['hint'], 400)}")
        elif late and told["state"] == "running":
            say(f"{styled('✓', 'green')} {name} runs")
