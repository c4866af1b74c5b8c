"""Hints for people whose plugin does not work.

The installed copy runs: a fix in the source folder changes nothing until an upgrade takes it in.
"""

from __future__ import annotations

from paddock.core.ids import DEFAULT_TENANT

UPGRADE_FIRST_HINT = "if the plugin itself has to change, upgrade it to a new version first; then enable it"
"""For a plugin that was given up; its action is `plugin.enable`."""


def tenant_option(tenant: str) -> str:
    """Return the command-line option for a tenant other than the default one, with a leading space."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
