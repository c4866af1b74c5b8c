"""Embedded plugins: functions of the application around the host, with a manifest validated like any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paddock.core.errors import Conflict, Invalid, PaddockError, Problem
from paddock.core.ids import DEFAULT_TENANT, Digest
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.host.plugins.desired_state import DesiredPlugin
from paddock.host.plugins.reconciler import Reconciler
from paddock.host.plugins.tool_records import ToolRecords
from paddock.manifest.model import SchemaFile
from paddock.manifest.read import read_bytes
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.purge import check_no_pending_purge
from paddock.plugins.store.thread import StoreThread
from paddock.runtime.deployment import Deployment, InstanceKey
from paddock.runtime.diagnosis import read_log

NO_LOG_HINT = "it is a function of this program: the event loop's exception handler was given what it raised"


def build_embedded(manifest: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> DesiredPlugin:
    """Build a plugin from a manifest, in the format of `paddock.yaml` without a runtime, and a function per callable.

    Raises:
        Invalid: the manifest has mistakes, or it does not match the functions; carries all of them.
    """
    text = json.dumps(dict(manifest), sort_keys=True)
    parsed = read_bytes("paddock.yaml", text.encode()).single()
    declared = {spec.name for spec in parsed.callables}
    problems = [
        *(Problem(name, "is declared, and no function serves it") for name in sorted(declared - functions.keys())),
        *(
            Problem(name, "is a function that the manifest does not declare")
            for name in sorted(functions.keys() - declared)
        ),
        *(
            Problem(spec.name, "names a file for its schema, and there is no package", "write the schema itself")
            for spec in parsed.callables
            if isinstance(spec.input_schema, SchemaFile) or isinstance(spec.output_schema, SchemaFile)
        ),
    ]
    if parsed.runtime is not None:
        problems.append(Problem("runtime", "names something to run, and functions are called", "leave it out"))
    if problems:
        raise Invalid(f"the functions of {parsed.name} do not fit its manifest", problems, code="embed.unfit")
    digest = Digest(f"embedded:{hashlib.sha256(text.encode()).hexdigest()}")
    key = InstanceKey(DEFAULT_TENANT, parsed.name, digest)
    # An application trusts its own functions: there is nobody to ask for a grant.
    deployment = Deployment(key, parsed, parsed.capabilities, functions=dict(functions), signature="embedded")
    schemas = {
        spec.name: CallableSchemas(spec.input_schema or {}, spec.output_schema or {}) for spec in parsed.callables
    }
    return DesiredPlugin(deployment, CatalogueEntry(key, parsed, schemas, signature="embedded"), ToolRecords())


class EmbeddedPlugins:
    """Embeds plugins of the program around the host, for the default tenant.

    Args:
        store: The plugin store.
        views: The plugin store, for reads.
        reconciler: Holds the embedded plugins beside the installed ones.
        resume_approved_calls: Makes a plugin's calls that were approved and not made in an earlier run of the program.
    """

    def __init__(
        self,
        store: StoreThread,
        views: StoreThread,
        reconciler: Reconciler,
        resume_approved_calls: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._views = views
        self._reconciler = reconciler
        self._resume_approved_calls = resume_approved_calls

    async def embed(self, manifest: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        """Serve functions of this program as a plugin. See `Host.embed`."""
        plugin = build_embedded(manifest, functions)
        name = str(plugin.deployment.name)
        installed = {listed.plugin.name for listed in await self._views.run(list_plugins)}
        if name in installed or name in self._reconciler.embedded:
            raise Conflict(f"there is a plugin {name!r} already", code="plugin.name_taken", hint="choose another name")
        await self._store.run(lambda store: check_no_pending_purge(store, name))
        self._reconciler.embedded[name] = plugin
        await self._reconciler.reconcile()
        await self._resume_approved_calls(name)

    def points_to_missing_log(self, error: PaddockError, key: InstanceKey) -> bool:
        """Whether the error of a call tells the reader to read a log, which embedded plugins have none of."""
        embedded = key.tenant == DEFAULT_TENANT and key.plugin in self._reconciler.embedded
        return embedded and error.action == read_log(key.plugin)
