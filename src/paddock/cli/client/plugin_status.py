"""Whether a plugin runs after a command changed it, as the daemon reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.cli.output.report import print_message, styled
from paddock.core.action import Action
from paddock.core.error_formats import problem_from_dict
from paddock.core.errors import Failed, Problem, Unavailable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient


def wait_until_plugin_runs(
    client: ApiClient, name: str, *, rollback_command: str = "", restart: bool = False
) -> dict[str, Any] | None:
    """Wait until a changed plugin runs or is known not to; return its runtime.

    None without a daemon, or if the plugin is not enabled.

    Args:
        client: Knows whether there is a daemon.
        name: The plugin.
        rollback_command: The command to suggest if it does not run.
        restart: Whether a running process must be replaced because its files were wrong.

    Raises:
        Unavailable: it should run, and does not.
    """
    from paddock.cli.client.api_client import plugin_path

    if not client.has_daemon:
        return None
    plugin = client.get(plugin_path(name))
    runtime: dict[str, Any] | None = plugin["runtime"]
    has_failed = runtime is not None and runtime["state"] == "failed"  # not by a person's choice
    if not plugin["enabled"] and not has_failed:
        return None
    # Also restarts a plugin that failed too often.
    started = client.post(f"{plugin_path(name)}/enable" + ("?anew=1" if restart else ""))
    if started["state"] != "running":
        raise start_failed_error(started, rollback_command)
    verb = "was started anew" if restart else "runs"
    print_message(f"{styled('✓', 'green')} {started['name']} {started['version']} {verb} (pid {started['pid']})")
    return runtime_from_response(started)


def runtime_from_response(started: dict[str, Any]) -> dict[str, Any]:
    """Extract the runtime from the daemon's response to a start, as `list` and `info` show it."""
    others = ("name", "version", "enabled", "warnings", "trusted_reads")
    return {field: value for field, value in started.items() if field not in others}


def start_failed_error(
    started: dict[str, Any], rollback_command: str = "", *, kept_disabled: bool = False
) -> Unavailable:
    """Build the error for a plugin that could not be started; `kept_disabled` says that it is disabled, as before."""
    name, hint = started["name"], started["hint"]
    action = Action.from_json(started["action"]) or (None if hint else Action.of("plugin.logs", plugin=name))
    if rollback_command:
        hint = f"{hint}; or go back: {rollback_command}" if hint else f"go back: {rollback_command}"
    state = "does not start, and stays disabled" if kept_disabled else "is enabled and does not run"
    error_type = Failed if started["state"] == "failed" else Unavailable
    return error_type(
        f"{name} {started['version']} {state} ({started['state']}): {started['reason'] or 'for an unknown reason'}",
        code=started["error_code"] or None,
        hint=hint,
        action=action,
        details=started,
    )


def stale_config_warnings(started: dict[str, Any]) -> tuple[Problem, ...]:
    """Warn if the plugin runs with an older configuration than the stored one."""
    if not started["unused_config"]:
        return ()
    message = f"the new one is not used, and it goes on with the one it had: {started['unused_config']}"
    return (Problem("configuration", message, code="config.unused"),)


def warnings_from_response(response: dict[str, Any]) -> tuple[Problem, ...]:
    """Return the warnings in a daemon's response about a plugin: it may run as another user than this command."""
    return tuple(problem_from_dict(warning) for warning in response["warnings"])
