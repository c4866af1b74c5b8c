"""The titles of a tool's inputs, as the form has them that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from paddock.console.forms.input_edits import input_titles
from paddock.core.errors import NotFound
from paddock.core.ids import Tenant
from paddock.host.host import Host

TitlesOf: TypeAlias = Callable[[str, str], Mapping[str, str]]
"""Returns the titles of the inputs of a plugin's tool by their names, in the order of its form."""


def tool_titles(host: Host, tenant: Tenant) -> TitlesOf:
    """Return a lookup of the titles, which reads each tool once; a tool that is gone has none."""
    catalogue = host.calls.callable_access.catalogue(tenant)

    @cache
    def titles_of(plugin: str, callable_name: str) -> Mapping[str, str]:
        if not plugin:  # not everything that needs a person is a call
            return {}
        try:
            return input_titles(catalogue.find_callable(plugin, callable_name).schemas.input)
        except NotFound:
            return {}

    return titles_of
