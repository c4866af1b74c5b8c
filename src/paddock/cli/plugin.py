"""`paddock plugin …`: the life of a plugin. The commands stand in the files this one gathers."""

from __future__ import annotations

import typer

from paddock.cli import (
    plugin_accept,
    plugin_authoring,
    plugin_changes,
    plugin_configure,
    plugin_documents,
    plugin_knobs,
    plugin_logs,
    plugin_new,
    plugin_switches,
    plugin_test,
    plugin_tools,
    plugin_views,
)

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Check, install, upgrade, pin, enable and remove plugins."
)

FAMILIES = (
    plugin_new,
    plugin_authoring,
    plugin_test,
    plugin_changes,
    plugin_views,
    plugin_logs,
    plugin_tools,
    plugin_documents,
    plugin_switches,
    plugin_accept,
    plugin_configure,
    plugin_knobs,
)

for family in FAMILIES:
    family.register(app)
