"""The local store, opened for one command of the person at this terminal."""

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
from paddock.host.wiring.local_store import LocalStore, open_local_store


def local_principal() -> PrincipalId:
    """Return the principal of the person at this terminal."""
    return PrincipalId(f"local:{user_name(os.geteuid())}")


@contextmanager
def open_for_read(tenant: str = DEFAULT_TENANT) -> Generator[LocalStore, None, None]:
    """Open the store for a command that only reads, with plugins as the tenant has them.

    Raises:
        NotFound: there is no such tenant.
    """
    with open_local_store(os.environ, Path.home(), cwd=working_directory()) as host:
        print_problems(host.loaded.warnings, "!", "yellow")
        host = replace(host, plugins=host.plugins.acting_as(local_principal()))
        if tenant != DEFAULT_TENANT:
            from paddock.principals.tenants import require_tenant

            tenant_record = host.plugins.database.read(lambda tx: require_tenant(tx, tenant))
            host = replace(host, plugins=host.plugins.for_tenant(tenant_record.name))
        yield host


@contextmanager
def open_for_change(tenant: str = DEFAULT_TENANT) -> Generator[LocalStore, None, None]:
    """Open the store for a command that changes something: cleans up after killed commands, then notifies a daemon."""
    with open_for_read(tenant) as host:
        clean_up_killed_commands(host)
        yield host
        apply_removals(host)


def clean_up_killed_commands(host: LocalStore) -> None:
    """Clean up what killed commands left behind."""
    from paddock.cli.client.api_client import running_daemon
    from paddock.plugins.manage.remove import clean_up_interrupted
    from paddock.plugins.store.purge import pending_purges

    clean_up_interrupted(host.plugins)
    if pending_purges(host.plugins) and running_daemon(host.directories) is None:  # a daemon purges them itself
        apply_removals(host)


def apply_removals(host: LocalStore) -> None:
    """Have the daemon stop removed plugins and purge their data; without a daemon, purge it here.

    What a daemon could not purge in time stays marked (`purge.pending_purges`).
    """
    from paddock.cli.client.api_client import running_daemon
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
    with suppress(PaddockError):  # it reconciles by itself every few seconds; this only makes it sooner
        daemon.post("/reconcile")
