"""The local store, opened for one command of the person at this terminal."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

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
def open_for_change() -> Generator[LocalStore, None, None]:
    """Open the store for a command that changes rows; afterwards a running daemon applies the change."""
    from paddock.cli.client.api_client import running_daemon

    with open_for_read() as host:
        yield host
        daemon = running_daemon(host.directories)
        if daemon is not None:
            with suppress(PaddockError):  # it reconciles by itself every few seconds; this only makes it sooner
                daemon.post("/reconcile")
