"""Checks the daemon of this home: whether it runs, answers and takes calls, and which of its plugins do not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from paddock.config.directories import Directories
from paddock.core.action import Action
from paddock.core.errors import PaddockError
from paddock.host.doctor.check import Check, CheckStatus


class DaemonReport(NamedTuple):
    """The daemon's report about itself, from its API."""

    plugins: Sequence[Mapping[str, Any]]
    troubles: Sequence[Mapping[str, Any]] = ()
    takes_calls: bool = True


# Returns None if no daemon runs. Injected by callers that can reach one.
DaemonQuery: TypeAlias = Callable[[Directories], DaemonReport | None]

_MAX_NAMED_PLUGINS = 10
_WHY_SILENT = "Commands leave plugins to the daemon, so they fail as long as it does not answer."
_WHY_REFUSING = "Calls that cannot be recorded do not run, so every call is rejected until this is fixed."
_WHY_TROUBLED = "Calls still run; a ledger without new checkpoints and rules that are not in force protect less."
_WHY_FAILED = "A plugin that does not run cannot be called. Fix the cause, then enable it to restart it."
_WHY_UNUSED = "A plugin keeps its previous configuration if the new one cannot be used."


def check_daemon(directories: Directories, query: DaemonQuery) -> Check:
    """Query the daemon, and check its plugins."""
    try:
        report = query(directories)
    except PaddockError as error:
        return Check.of_error("daemon", error, _WHY_SILENT)
    if report is None:
        return Check("daemon", CheckStatus.OK, "none runs for this home", actions=(Action.of("daemon.start"),))
    return evaluate_daemon(report)


def evaluate_daemon(report: DaemonReport) -> Check:
    """Evaluate the daemon's report: problems of the daemon as a whole take precedence over those of plugins."""
    check = evaluate_plugins([plugin for plugin in report.plugins if plugin["runtime"]])
    if not report.troubles:
        return check
    first = report.troubles[0]
    action = Action.from_json(first.get("action"))
    return replace(
        check,
        status=CheckStatus.WARN if report.takes_calls else CheckStatus.FAIL,
        found=f"{check.found}; {first['message'] if report.takes_calls else 'it rejects calls: ' + first['message']}",
        why=_WHY_TROUBLED if report.takes_calls else _WHY_REFUSING,
        fix=first.get("hint", ""),
        actions=(action,) if action else (),
        code=first["code"],
        details=(*(f"{problem['about']}: {problem['message']}" for problem in report.troubles), *check.details),
    )


def evaluate_plugins(plugins: Sequence[Mapping[str, Any]]) -> Check:
    """Count running plugins, with the actions for each that should run and does not."""
    running = sum(plugin["runtime"]["state"] == "running" for plugin in plugins)
    failed = [plugin for plugin in plugins if plugin["runtime"]["state"] != "running" and plugin["runtime"]["reason"]]
    unused_config = [plugin for plugin in plugins if plugin["runtime"]["unused_config"]]
    on_demand = sum(plugin["runtime"]["on_demand"] for plugin in plugins)
    found = f"runs and answers; {running} {'plugin runs' if running == 1 else 'plugins run'}"
    found += f", {on_demand} {'starts' if on_demand == 1 else 'start'} when called" if on_demand else ""
    if unused_config and not failed:
        details = tuple(f"{plugin['name']}: {plugin['runtime']['unused_config']}" for plugin in unused_config)
        found += f", {len(unused_config)} of them without their new configuration"
        return Check("daemon", CheckStatus.WARN, found, _WHY_UNUSED, code="config.unused", details=details)
    if not failed:
        return Check("daemon", CheckStatus.OK, found)
    names = [plugin["name"] for plugin in failed[:_MAX_NAMED_PLUGINS]]
    return Check(
        "daemon",
        CheckStatus.WARN,
        f"{found}, {len(failed)} {'does' if len(failed) == 1 else 'do'} not",
        _WHY_FAILED,
        "",
        "daemon.plugins_failed",
        tuple(f"{plugin['name']} {plugin['runtime']['state']}: {plugin['runtime']['reason']}" for plugin in failed),
        tuple(Action.of(kind, plugin=name) for name in names for kind in ("plugin.show", "plugin.enable")),
    )
