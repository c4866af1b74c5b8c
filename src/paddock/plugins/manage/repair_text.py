"""What a person does about a plugin that does not work, in words.

What runs is the copy that was installed: mending the folder it came from changes nothing until an upgrade takes it in.
"""

from __future__ import annotations

from paddock.core.ids import DEFAULT_TENANT


def upgrade_or_enable_hint(plugin: str, tenant: str = DEFAULT_TENANT) -> str:
    """The way to have a plugin run again that was given up."""
    return (
        f"if the plugin has to change, give it a new version and run: paddock plugin upgrade {plugin}; "
        f"after that, or if only this machine had to: paddock plugin enable {plugin}{tenant_option(tenant)}"
    )


def tenant_option(tenant: str) -> str:
    """What to add to a command where it is about another tenant than the default one."""
    return "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
