"""Hints for people whose plugin does not work.

The installed copy runs: a fix in the source folder changes nothing until an upgrade takes it in.
"""

from __future__ import annotations

from paddock.core.ids import DEFAULT_TENANT


def upgrade_or_enable_hint(plugin: str, tenant: str = DEFAULT_TENANT) -> str:
    """Return the hint how to run a plugin again that was given up."""
    return (
        f"if the plugin has to change, give it a new version and run: paddock plugin upgrade {plugin}; "
        f"after that, or if only this machine had to: paddock plugin enable {plugin}{tenant_option(tenant)}"
    )


def tenant_option(tenant: str) -> str:
    """Return the command-line option for a tenant other than the default one, with a leading space."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
