"""Runs all doctor checks: each probe in a thread of its own, so that none can break or delay the others."""

from __future__ import annotations

import os
import queue
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from paddock.cage.cgroups.discovery import read_cgroup_view
from paddock.cage.linux import subtree_pids
from paddock.config.directories import Directories, find_directories
from paddock.config.load import load_settings
from paddock.config.settings import Settings
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.host.doctor.anchor_check import check_anchors
from paddock.host.doctor.cage_checks import (
    check_bubblewrap,
    check_cage_launch,
    check_cgroups,
    check_landlock,
    check_seccomp,
    check_user_namespaces,
)
from paddock.host.doctor.check import Check, CheckStatus
from paddock.host.doctor.daemon_check import DaemonQuery, check_daemon
from paddock.host.doctor.home_checks import (
    check_configuration,
    check_effects,
    check_plugins,
    check_rules,
    check_secrets,
)
from paddock.host.doctor.ledger_check import check_ledger
from paddock.host.doctor.system_checks import (
    check_disk,
    check_git,
    check_node,
    check_permissions,
    check_postgresql,
    check_python,
    check_sqlite,
)

Probe = tuple[str, Callable[[], Check]]

_PROBES_TIMEOUT_S = 30.0


def check_machine(
    environ: Mapping[str, str], home: Path, cwd: Path | None = None, ask_daemon: DaemonQuery | None = None
) -> list[Check]:
    """Check everything that Paddock needs, in the order in which a person would fix it.

    Args:
        environ: The environment; programs are searched in its `PATH`.
        home: The user's home directory.
        cwd: The directory to search for project settings; None for none.
        ask_daemon: Queries the daemon of this home; None skips it.
    """
    try:
        directories = find_directories(environ, home)
    except PaddockError as error:
        return [Check.of_error("settings", error, "Paddock cannot find its files.")]
    settings, settings_check = _check_settings(directories, environ, cwd)
    probes: list[Probe] = [
        ("Python", lambda: check_python(sys.version_info[:3])),
        ("SQLite", lambda: check_sqlite(directories.data)),
        ("disk", lambda: check_disk(directories.data)),
        ("permissions", lambda: check_permissions(directories)),
        ("bubblewrap", lambda: check_bubblewrap(environ)),
        ("user namespaces", check_user_namespaces),
        ("seccomp", check_seccomp),
        ("Landlock", check_landlock),
        ("cgroups", lambda: check_cgroups(read_cgroup_view(lambda: subtree_pids(os.getpid())))),
        ("cage", lambda: check_cage_launch(environ)),
        ("plugins", lambda: check_plugins(directories, settings)),
        ("configuration", lambda: check_configuration(directories, settings, environ, ask_daemon)),
        ("secrets", lambda: check_secrets(directories, settings, environ)),
        ("effects", lambda: check_effects(directories, settings)),
        ("ledger", lambda: check_ledger(directories, settings)),
        ("rules", lambda: check_rules(directories, settings)),
        ("ledger anchors", lambda: check_anchors(directories, settings, datetime.now(UTC))),
        ("git", lambda: check_git(environ)),
        ("node", lambda: check_node(environ)),
    ]
    if ask_daemon is not None:
        probes.append(("daemon", lambda: check_daemon(directories, ask_daemon)))
    url = settings.store.url if settings is not None else None
    if url is not None and url.startswith(("postgresql://", "postgres://")):
        probes.append(("PostgreSQL", lambda: check_postgresql(url)))
    return [settings_check, *run_probes(probes, _PROBES_TIMEOUT_S)]


def run_probes(probes: Sequence[Probe], timeout_s: float) -> list[Check]:
    """Run every probe in a thread of its own and wait for all, at most this long.

    A probe that raises becomes a failed check, and so does one that does not return: its thread is left behind,
    since nothing can interrupt access to a dead network disk.
    """
    results: queue.SimpleQueue[tuple[int, Check]] = queue.SimpleQueue()
    for index, (name, probe) in enumerate(probes):
        threading.Thread(target=_run_probe, args=(index, name, probe, results), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    finished: dict[int, Check] = {}
    while len(finished) < len(probes):
        try:
            index, check = results.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        finished[index] = check
    return [
        finished.get(index)
        or Check(name, CheckStatus.FAIL, f"did not answer within {timeout_s:g} s", "Something hangs here.")
        for index, (name, _) in enumerate(probes)
    ]


def _run_probe(
    index: int, name: str, probe: Callable[[], Check], results: queue.SimpleQueue[tuple[int, Check]]
) -> None:
    try:
        check = probe()
    except Exception as error:
        # A broken probe is a finding about the machine; it must not end doctor.
        check = Check(
            name, CheckStatus.FAIL, f"could not be checked: {type(error).__name__}: {error}", code="doctor.probe"
        )
    results.put((index, check))


def _check_settings(
    directories: Directories, environ: Mapping[str, str], cwd: Path | None
) -> tuple[Settings | None, Check]:
    """Load the settings, if they are valid, and check them."""
    why = "Commands that use settings fail until this is fixed."
    try:
        loaded = load_settings(directories, environ, cwd=cwd)
    except Invalid as error:
        found, details = _summarize_problems(error.message, error.problems)
        fix = _fix_command(error.problems, directories, environ)
        return None, Check("settings", CheckStatus.FAIL, found, why, fix, error.error_code, details)
    except PaddockError as error:
        return None, Check.of_error("settings", error, why)
    except OSError as error:
        return None, Check("settings", CheckStatus.FAIL, str(error), why)
    if loaded.warnings:
        found, details = _summarize_problems(
            f"{len(loaded.warnings)} settings may not be what you meant", loaded.warnings
        )
        hint = next((warning.hint for warning in loaded.warnings if warning.hint), "")
        return loaded.settings, Check("settings", CheckStatus.WARN, found, "", hint, "", details)
    return loaded.settings, Check("settings", CheckStatus.OK, f"read from {directories.config}")


def _summarize_problems(summary: str, problems: Sequence[Problem]) -> tuple[str, tuple[str, ...]]:
    """Return the finding and its details: a single problem is the finding itself; several become details."""
    return (str(problems[0]), ()) if len(problems) == 1 else (summary, tuple(map(str, problems)))


def _fix_command(problems: Sequence[Problem], directories: Directories, environ: Mapping[str, str]) -> str:
    """Return the command that opens the files with mistakes and unsets the variables with mistakes."""
    files = [
        shlex.quote(str(file))
        for file in (directories.local_file, directories.config_file)
        if any(problem.path.startswith(str(file)) for problem in problems)
    ]
    names = sorted({problem.path for problem in problems} & set(environ))
    lines = [f"unset {' '.join(names)}"] if names else []
    return "; ".join([*lines, f"$EDITOR {' '.join(files)}"] if files else lines)
