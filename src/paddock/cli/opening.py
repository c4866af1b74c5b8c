"""Opening the host for one command."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from paddock.cli.output import show_problems
from paddock.config.owners import user_name
from paddock.config.project import working_directory
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId
from paddock.host.command import CommandHost, open_for_command


def at_this_machine() -> PrincipalId:
    """Who types this."""
    return PrincipalId(f"local:{user_name(os.geteuid())}")


@contextmanager
def reading(tenant: str = DEFAULT_TENANT) -> Generator[CommandHost, None, None]:
    """For a command that only looks, at plugins as a tenant has them.

    Raises:
        NotFound: there is no such tenant.
    """
    with open_for_command(os.environ, Path.home(), cwd=working_directory()) as host:
        show_problems(host.loaded.warnings, "!", "yellow")
        host = replace(host, plugins=host.plugins.used_by(at_this_machine()))
        if tenant != DEFAULT_TENANT:
            from paddock.principals.tenants import require_tenant

            found = host.plugins.database.read(lambda tx: require_tenant(tx, tenant))
            host = replace(host, plugins=host.plugins.of(found.name))
        yield host


def in_path(name: str) -> str:
    """A plugin's name as one part of an address that a daemon is asked at.

    Raises:
        NotFound: no plugin can have it; the same that asking for it without a daemon gives.
    """
    from paddock.cli.daemon import part
    from paddock.plugins.registry import require_plugin

    if not name or "/" in name:  # addresses cannot hold it; should it be an alias, the plugin's own name can
        with reading() as host:
            name = host.plugins.database.read(lambda tx: require_plugin(tx, name)).name
    return part(name)


@contextmanager
def changing(tenant: str = DEFAULT_TENANT) -> Generator[CommandHost, None, None]:
    """For a command that changes something: what a killed one left behind is tidied first, a daemon is told last."""
    with reading(tenant) as host:
        tidy(host)
        yield host
        put_into_effect(host)


def tidy(host: CommandHost) -> None:
    """Clear away what a killed command left behind."""
    from paddock.cli.daemon import running_daemon
    from paddock.plugins.leavings import leaving
    from paddock.plugins.removal import mend_entries

    host.plugins.sweep()
    mend_entries(host.plugins)
    if leaving(host.plugins) and running_daemon(host.directories) is None:  # a daemon sees to them by itself
        put_into_effect(host)


def put_into_effect(host: CommandHost) -> None:
    """Have a daemon end what is gone, and drop what that kept; without one only the second is left to do.

    What a daemon could not drop in time is still marked afterwards (`leavings.leaving`).
    """
    from paddock.cli.daemon import running_daemon
    from paddock.gate.effects.forgetting import forget_plugin
    from paddock.host.log_files import remove_log
    from paddock.plugins.leavings import drop_all

    daemon = running_daemon(host.directories)
    if daemon is None:
        plugins = host.plugins
        drop_all(
            plugins,
            partial(remove_log, host.directories.state / "logs"),
            partial(forget_plugin, clock=plugins.clock, random=plugins.random),
        )
        return
    with suppress(PaddockError):  # it looks by itself every few seconds; this only makes it sooner
        daemon.post("/reconcile")
