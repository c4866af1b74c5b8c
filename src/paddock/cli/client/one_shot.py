"""Opening the host for one command."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from paddock.cli.output.report import print_problems
from paddock.config.directories import user_name
from paddock.config.project_file import working_directory
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.host.wiring.one_shot import OneShotHost, open_one_shot


def local_principal() -> PrincipalId:
    """Who types this."""
    return PrincipalId(f"local:{user_name(os.geteuid())}")


@contextmanager
def open_for_read(tenant: str = DEFAULT_TENANT) -> Generator[OneShotHost, None, None]:
    """For a command that only looks, at plugins as a tenant has them.

    Raises:
        NotFound: there is no such tenant.
    """
    with open_one_shot(os.environ, Path.home(), cwd=working_directory()) as host:
        print_problems(host.loaded.warnings, "!", "yellow")
        host = replace(host, plugins=host.plugins.acting_as(local_principal()))
        if tenant != DEFAULT_TENANT:
            from paddock.principals.tenants import require_tenant

            found = host.plugins.database.read(lambda tx: require_tenant(tx, tenant))
            host = replace(host, plugins=host.plugins.for_tenant(found.name))
        yield host


def plugin_path_segment(name: str) -> str:
    """A plugin's name as one part of an address that a daemon is asked at.

    Raises:
        NotFound: no plugin can have it; the same that asking for it without a daemon gives.
    """
    from paddock.cli.client.daemon_client import path_segment
    from paddock.plugins.store.lookup import require_plugin

    if not name or "/" in name:  # addresses cannot hold it; should it be an alias, the plugin's own name can
        with open_for_read() as host:
            name = host.plugins.database.read(lambda tx: require_plugin(tx, name)).name
    return path_segment(name)


@contextmanager
def open_for_change(tenant: str = DEFAULT_TENANT) -> Generator[OneShotHost, None, None]:
    """For a command that changes something: what a killed one left behind is tidied first, a daemon is told last."""
    with open_for_read(tenant) as host:
        clean_up_killed_commands(host)
        yield host
        apply_removals(host)


def clean_up_killed_commands(host: OneShotHost) -> None:
    """Clear away what a killed command left behind."""
    from paddock.cli.client.daemon_client import running_daemon
    from paddock.plugins.manage.remove import reconcile_config_entries
    from paddock.plugins.store.purge import pending_purges

    host.plugins.sweep()
    reconcile_config_entries(host.plugins)
    if pending_purges(host.plugins) and running_daemon(host.directories) is None:  # a daemon sees to them by itself
        apply_removals(host)


def apply_removals(host: OneShotHost) -> None:
    """Have a daemon end what is gone, and drop what that kept; without one only the second is left to do.

    What a daemon could not drop in time is still marked afterwards (`leavings.leaving`).
    """
    from paddock.cli.client.daemon_client import running_daemon
    from paddock.gate.idempotency.retention import erase_plugin
    from paddock.host.plugins.logs.log_files import remove_log_files
    from paddock.plugins.store.purge import purge_all

    daemon = running_daemon(host.directories)
    if daemon is None:
        plugins = host.plugins
        purge_all(
            plugins,
            partial(remove_log_files, host.directories.state / "logs"),
            partial(erase_plugin, clock=plugins.clock, random=plugins.random),
        )
        return
    with suppress(PaddockError):  # it looks by itself every few seconds; this only makes it sooner
        daemon.post("/reconcile")
