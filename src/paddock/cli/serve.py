"""`paddock serve`: the daemon, in the foreground, until a signal ends it."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

from paddock.cli.output import AsJson, reporting, result, say, styled
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

    status = run(serve_until_stopped(_tell_json if as_json else _tell, configure_log))
    raise typer.Exit(status)


def _one_of(written: str, known: tuple[str, ...], option: str) -> None:
    if written not in known:
        raise typer.BadParameter(f"{printable(written)} is not one of {', '.join(known)}", param_hint=option)


def _tell_json(told: dict[str, Any]) -> None:
    import json

    result(json.dumps(told, ensure_ascii=True))
    sys.stdout.flush()


def _tell(told: dict[str, Any]) -> None:
    """The same for people: the plugins that do not run, and when the daemon is ready and gone."""
    match told["event"]:
        case "ready":
            count = told["running"]
            plugins = "1 plugin runs" if count == 1 else f"{count} plugins run"
            result(f"ready: {plugins}; listening on {told['socket']} (pid {told['pid']})")
        case "plugin" if told["state"] in ("failed", "crashed"):
            again = "; it is started again" if told["state"] == "crashed" else ""
            say(f"{styled('!', 'yellow')} {told['name']} {told['state']}: {printable(told['reason'], 400)}{again}")
            if told["hint"]:
                say(f"  {styled('→', 'dim')} {printable(told['hint'], 400)}")
        case "draining":
            say("stopping: calls under way may finish; once more to end now")
        case "stopped":
            result("stopped")
        case _:
            pass
    sys.stdout.flush()
