"""Whether a plugin runs after a command changed it: asked of the daemon, where there is one."""

from __future__ import annotations

from typing import Any

from paddock.cli.output.report import print_message, styled
from paddock.core.errors import Failed, Problem, Unavailable


def wait_until_running(name: str, *, way_back: str = "", anew: bool = False) -> dict[str, Any] | None:
    """How a changed plugin is doing once it runs or is known not to; None where no daemon runs or nobody enabled it.

    Args:
        name: The plugin.
        way_back: What to type when it does not run.
        anew: Whether a process that runs has to make way for a new one, because its files were not the right ones.

    Raises:
        Unavailable: it should run, and does not.
    """
    from paddock.cli.client.daemon_client import path_segment, running_daemon

    daemon = running_daemon()
    if daemon is None:
        return None
    shown = daemon.get(f"/plugins/{path_segment(name)}")
    runtime: dict[str, Any] | None = shown["runtime"]
    given_up = runtime is not None and runtime["state"] == "failed"  # which no person asked for
    if not shown["enabled"] and not given_up:
        return None
    # Also the way to start one again that failed too often.
    started = daemon.post(f"/plugins/{path_segment(name)}/enable" + ("?anew=1" if anew else ""))
    if started["state"] != "running":
        raise start_failed_error(started, way_back)
    how = "was started anew" if anew else "runs"
    print_message(f"{styled('✓', 'green')} {started['name']} {started['version']} {how} (pid {started['pid']})")
    return runtime_from_response(started)


def runtime_from_response(started: dict[str, Any]) -> dict[str, Any]:
    """How the process is doing, of what the daemon answers when it started one; as `list` and `info` show it."""
    return {field: value for field, value in started.items() if field not in ("name", "version")}


def start_failed_error(started: dict[str, Any], way_back: str = "") -> Unavailable:
    """A plugin that was enabled, and that the daemon could not start."""
    name = started["name"]
    hint = started["hint"] or f"see what it wrote: paddock plugin logs {name}"
    kind = Failed if started["state"] == "failed" else Unavailable
    return kind(
        f"{name} {started['version']} is enabled and does not run ({started['state']}): "
        f"{started['reason'] or 'nobody knows why'}",
        code=started["error_code"] or None,
        hint=f"{hint}; or go back: {way_back}" if way_back else hint,
        details=started,
    )


def stale_config_warnings(started: dict[str, Any]) -> tuple[Problem, ...]:
    """That it runs, and not with what is configured by now."""
    if not started["unused_config"]:
        return ()
    told = f"the new one is not used, and it goes on with the one it had: {started['unused_config']}"
    return (Problem("configuration", told, code="config.unused"),)


def warnings_from_response(shown: dict[str, Any]) -> tuple[Problem, ...]:
    """What stands in a daemon's answer about a plugin: it may run as another user than this command."""
    return tuple(Problem(**one) for one in shown["warnings"])
