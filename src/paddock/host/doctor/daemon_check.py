"""The daemon of this home: whether one runs, answers and takes calls, and which of its plugins do not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from paddock.config.directories import Directories
from paddock.core.errors import PaddockError
from paddock.host.doctor.check import Check, CheckStatus


class DaemonReport(NamedTuple):
    """What the daemon says of itself, as its API has it."""

    plugins: Sequence[Mapping[str, Any]]
    troubles: Sequence[Mapping[str, Any]] = ()
    takes_calls: bool = True


# None where no daemon runs. Given by whoever can ask.
DaemonQuery: TypeAlias = Callable[[Directories], DaemonReport | None]

_MAX_NAMED_PLUGINS = 10
_WHY_SILENT = "Commands leave plugins to the daemon, so they fail as long as it does not answer."
_WHY_REFUSING = "What cannot be recorded is not done, so every call is refused until this is mended."
_WHY_TROUBLED = "Calls go on meanwhile; a ledger without new checkpoints and rules that are not in force protect less."
_WHY_FAILED = "A plugin that does not run cannot be called. Mend the reason; enabling it starts it anew."
_WHY_UNUSED = "A plugin goes on with the configuration that it had where the new one cannot be used."


def check_daemon(directories: Directories, ask: DaemonQuery) -> Check:
    """Ask it how its plugins are doing."""
    try:
        told = ask(directories)
    except PaddockError as error:
        return Check("daemon", CheckStatus.FAIL, error.message, _WHY_SILENT, error.hint, error.error_code)
    if told is None:
        return Check("daemon", CheckStatus.OK, "none runs for this home; paddock serve starts one")
    return evaluate_daemon(told)


def evaluate_daemon(told: DaemonReport) -> Check:
    """How its plugins are doing, or, where there is trouble with the daemon as a whole, what that is."""
    check = evaluate_plugins([one for one in told.plugins if one["runtime"]])
    if not told.troubles:
        return check
    first = told.troubles[0]
    return replace(
        check,
        status=CheckStatus.WARN if told.takes_calls else CheckStatus.FAIL,
        found=f"{check.found}; {first['message'] if told.takes_calls else 'no call is taken: ' + first['message']}",
        why=_WHY_TROUBLED if told.takes_calls else _WHY_REFUSING,
        fix=first.get("hint", ""),
        code=first["code"],
        details=(*(f"{one['about']}: {one['message']}" for one in told.troubles), *check.details),
    )


def evaluate_plugins(plugins: Sequence[Mapping[str, Any]]) -> Check:
    """How many run, and what to type about each that should and does not."""
    running = sum(one["runtime"]["state"] == "running" for one in plugins)
    troubled = [one for one in plugins if one["runtime"]["state"] != "running" and one["runtime"]["reason"]]
    unused = [one for one in plugins if one["runtime"]["unused_config"]]
    waiting = sum(one["runtime"]["on_demand"] for one in plugins)
    found = f"runs and answers; {running} {'plugin runs' if running == 1 else 'plugins run'}"
    found += f", {waiting} {'starts' if waiting == 1 else 'start'} when called" if waiting else ""
    if unused and not troubled:
        details = tuple(f"{one['name']}: {one['runtime']['unused_config']}" for one in unused)
        found += f", {len(unused)} of them not with what is configured"
        return Check("daemon", CheckStatus.WARN, found, _WHY_UNUSED, code="config.unused", details=details)
    if not troubled:
        return Check("daemon", CheckStatus.OK, found)
    named = [one["name"] for one in troubled[:_MAX_NAMED_PLUGINS]]
    return Check(
        "daemon",
        CheckStatus.WARN,
        f"{found}, {len(troubled)} {'does' if len(troubled) == 1 else 'do'} not",
        _WHY_FAILED,
        "; ".join(f"paddock plugin info {name}; paddock plugin enable {name}" for name in named),
        "daemon.plugins_failed",
        tuple(f"{one['name']} {one['runtime']['state']}: {one['runtime']['reason']}" for one in troubled),
    )
