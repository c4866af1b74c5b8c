"""`paddock serve`: the daemon in the foreground, until a signal ends it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, cast

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.action_text import remedy_lines_of
from paddock.cli.output.report import print_error, styled
from paddock.core.error_formats import error_to_json, exit_code
from paddock.core.errors import PaddockError
from paddock.core.printable import printable
from paddock.daemon.nonblocking_writer import NonblockingWriter, open_nonblocking_writer

LOG_FORMATS = ("text", "json")
LOG_LEVEL_NAMES = ("debug", "info", "warning", "error")
FINAL_FLUSH_S = 0.5  # for the last line


@command("serve", examples=["paddock serve --port 8080", "paddock serve --log-format json"])
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    help="The TCP port, 0 for any free one. [default: that of http.address]",
)
@click.option("--log-format", default="text", metavar="FORM", help="The format of the log on stderr: text or json.")
@click.option("--log-level", metavar="LEVEL", help=f"Least important message: {', '.join(LOG_LEVEL_NAMES)}.")
@options.as_json
def serve(*, port: int | None, log_format: str, log_level: str | None, as_json: bool) -> None:
    """Run the daemon: the enabled plugins, the HTTP API and the console.

    Ctrl-C or SIGTERM lets calls finish first; a second one does not.
    """
    _check_choice(log_format, LOG_FORMATS, "--log-format")
    _check_choice(log_level or LOG_LEVEL_NAMES[0], LOG_LEVEL_NAMES, "--log-level")

    from paddock.cli.client.event_loop import run_async
    from paddock.daemon.log_format import LogFormat, configure_logging, dropped_lines_message
    from paddock.daemon.run import run_daemon

    chosen_format = cast("LogFormat", log_format)
    dropped_line = _dropped_events_line if as_json else dropped_lines_message("text")
    with (
        open_nonblocking_writer(sys.stdout, dropped_line) as out,
        open_nonblocking_writer(sys.stderr, dropped_lines_message(chosen_format)) as err,
    ):
        report = _json_event_writer(out) if as_json else _ServeEventPrinter(out, err).print_event

        def configure_log(level: str) -> None:
            configure_logging(err, chosen_format, log_level or level)

        def report_and_flush(event: dict[str, Any]) -> None:
            report(event)
            if event["event"] == "stopped":  # this process may end at once
                out.flush(FINAL_FLUSH_S)

        try:
            status = run_async(run_daemon(report_and_flush, configure_log, port))
        except PaddockError as error:
            if not as_json:
                raise
            report({"event": "error", "error": error_to_json(error)})  # one object per line, errors too
            print_error(error)
            status = exit_code(error)
    raise click.exceptions.Exit(status)


def _check_choice(value: str, choices: tuple[str, ...], option: str) -> None:
    if value not in choices:
        raise click.BadParameter(f"{printable(value)} is not one of {', '.join(choices)}", param_hint=option)


def _json_event_writer(out: NonblockingWriter) -> Callable[[dict[str, Any]], None]:
    return lambda event: out.write_line(json.dumps(event, ensure_ascii=True))


def _dropped_events_line(count: int) -> str:
    return json.dumps({"event": "lost", "count": count})


def _running_plugins_text(event: dict[str, Any]) -> str:
    """Describe how many plugins run, and how many do not yet."""
    running, starting, on_demand = event["running"], event["starting"], event["on_demand"]
    parts = ["1 plugin runs" if running == 1 else f"{running} plugins run"]
    parts += [f"{starting} starting"] if starting else []
    parts += ["1 starts when called" if on_demand == 1 else f"{on_demand} start when called"] if on_demand else []
    return ", ".join(parts)


def _unknown_outcomes_text(count: int) -> str:
    return "1 call has an unknown outcome" if count == 1 else f"{count:,} calls have an unknown outcome"


class _ServeEventPrinter:
    """Prints events as text: plugins that do not start, that the daemon is ready, and that it stopped.

    Plugins that start slowly are reported once they run or fail. Later events of plugins are in the log.
    """

    def __init__(self, out: NonblockingWriter, err: NonblockingWriter) -> None:
        self._out = out
        self._err = err
        self._ready = False
        self._starting: set[str] = set()

    def print_event(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "ready":
                self._ready = True
                address = f"{event['url']} and {event['socket']}" if event["url"] else event["socket"]
                self._out.write_line(
                    f"ready: {_running_plugins_text(event)}; listening on {address} (pid {event['pid']})"
                )
                if event["in_doubt"]:
                    self._err.write_line(
                        f"{styled('!', 'yellow')} {_unknown_outcomes_text(event['in_doubt'])}:"
                        " paddock call unresolved list"
                    )
            case "login":
                self._err.write_line(f"sign in at the console, once and within a quarter of an hour: {event['url']}")
            case "plugin":
                self._print_plugin_start(event)
            case "draining":
                self._err.write_line("stopping: calls under way may finish; once more to end now")
            case "stopped":
                self._out.write_line("stopped")
            case _:
                pass

    def _print_plugin_start(self, event: dict[str, Any]) -> None:
        name, late = event["name"], event["name"] in self._starting
        if event["state"] == "spawning":
            self._starting |= set() if self._ready else {name}
            return
        self._starting.discard(name)
        if event["reason"] and (late or not self._ready):
            self._err.write_line(f"{styled('!', 'yellow')} {name} {event['state']}: {printable(event['reason'], 400)}")
            for line in remedy_lines_of(event):
                self._err.write_line(f"  {styled('→', 'dim')} {printable(line, 400)}")
        elif late and event["state"] == "running":
            self._err.write_line(f"{styled('✓', 'green')} {name} runs")
