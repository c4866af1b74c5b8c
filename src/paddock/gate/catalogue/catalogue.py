"""Catalogue of call targets: looked up in a table of plugins and callables, never by parsing a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound, PluginError
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.documents import (
    COMPLETE_ARGUMENT,
    READ_RESOURCE,
    SUBSCRIBE_RESOURCE,
    UNSUBSCRIBE_RESOURCE,
    DocumentIndex,
    PromptOffer,
    documents_from_manifest,
)
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.plugins.store.rows import UPGRADE_FIRST_HINT
from paddock.plugins.tool_pinning.offer import WithheldDefinition

MAX_NAMES_IN_HINT = 12  # callable names listed in an error hint


def _targets_of(entry: CatalogueEntry) -> dict[str, CallTarget]:
    declared = {spec.name: CallTarget(entry, spec) for spec in entry.manifest.callables}
    return declared | {
        name: CallTarget(entry, CallableSpec(name, CallableForm.TOOL), withheld)
        for name, withheld in entry.withheld.items()
    }


def _documents_of(entry: CatalogueEntry) -> DocumentIndex:
    return entry.documents if entry.documents is not None else documents_from_manifest(entry.manifest)


def _schemas_of(spec: CallableSpec) -> CallableSchemas:
    return CallableSchemas(spec.input_schema or {}, {})


class Catalogue:
    """Everything that one tenant can call now. It is replaced as a whole when plugins are enabled or disabled.

    Args:
        entries: The plugins that may be called.
        disabled_reasons: By name or alias, why a daemon disabled a plugin.
        tenant: The tenant.
    """

    def __init__(
        self,
        entries: Iterable[CatalogueEntry] = (),
        disabled_reasons: Mapping[str, str] = MappingProxyType({}),
        tenant: Tenant = DEFAULT_TENANT,
    ) -> None:
        self._disabled_reasons = disabled_reasons
        self._tenant = tenant
        self._by_name: dict[str, list[CallTarget]] = {}
        self._by_plugin: dict[str, dict[str, CallTarget]] = {}
        self._undiscovered: dict[str, CatalogueEntry] = {}
        self._entries: dict[str, CatalogueEntry] = {}  # by name and alias
        indexed = [(entry, _targets_of(entry)) for entry in entries]
        for entry, targets in indexed:
            self._by_plugin[entry.manifest.name] = targets
            self._entries[entry.manifest.name] = entry
            self._index(entry.manifest.name, targets)
            self._index_undiscovered(entry.manifest.name, entry)
        # After all real names: an alias never takes a plugin's own name, or that of its callables.
        reserved = frozenset(self._by_name)
        for entry, targets in indexed:
            for alias in entry.aliases:
                if alias not in self._by_plugin:
                    self._by_plugin[alias] = targets
                    self._entries[alias] = entry
                    self._index(alias, targets, reserved=reserved)
                    self._index_undiscovered(alias, entry)

    def _index_undiscovered(self, name: str, entry: CatalogueEntry) -> None:
        if entry.dynamic and not entry.discovered:
            self._undiscovered[name] = entry

    def _index(self, plugin: str, targets: Mapping[str, CallTarget], reserved: frozenset[str] = frozenset()) -> None:
        for target in targets.values():
            is_whole = target.spec.form is CallableForm.WHOLE and target.spec is target.manifest.whole
            for name in {f"{plugin}.{target.spec.name}", *([plugin] if is_whole else ())} - reserved:
                self._by_name.setdefault(name, []).append(target)

    def find(self, name: str) -> CallTarget:
        """Find a callable by its full name.

        Raises:
            NotFound: there is none; the hint names the closest match.
            Conflict: two plugins claim the name. Neither gets the call: the host does not guess which one was meant.
        """
        targets = self._by_name.get(name) or self._undiscovered_targets(name)
        if not targets:
            raise self._unknown_name_error(name, self._by_name)
        if len(targets) > 1:
            plugins = " and ".join(sorted({target.key.plugin for target in targets}))
            raise Conflict(
                f"{plugins} both have a callable {name}",
                code="callable.ambiguous",
                hint="disable one of them, or name plugin and callable apart: POST /plugins/PLUGIN/call/CALLABLE",
                action=Action.of("plugin.disable", plugin=targets[-1].key.plugin, tenant=self._tenant),
            )
        return targets[0]

    def _undiscovered_targets(self, name: str) -> list[CallTarget]:
        """Return possible targets of a name: tools of servers that have not listed their tools yet."""
        owners = [(plugin, entry) for plugin, entry in self._undiscovered.items() if name.startswith(f"{plugin}.")]
        return [
            CallTarget(entry, CallableSpec(name.removeprefix(f"{plugin}."), CallableForm.TOOL))
            for plugin, entry in owners
        ]

    def find_callable(self, plugin: str, callable_name: str) -> CallTarget:
        """Find a callable of a plugin; without a name, the only one that is not an action.

        Raises:
            NotFound: no such plugin is enabled, or it has no such callable.
        """
        targets = self._by_plugin.get(plugin)
        if targets is None:
            raise self._not_found_error(plugin, callable_name)
        main = [target for target in targets.values() if target.spec.form is not CallableForm.ACTION]
        if not callable_name and len(main) == 1:
            return main[0]
        target = targets.get(callable_name) or targets.get(callable_name.removeprefix(f"{plugin}."))
        if target is None and callable_name and plugin in self._undiscovered:
            return CallTarget(self._undiscovered[plugin], CallableSpec(callable_name, CallableForm.TOOL))
        if target is None:
            raise self._not_found_error(plugin, callable_name)
        return target

    def find_recorded(self, plugin: str, name: str, payload: Mapping[str, Any]) -> CallTarget:
        """Find the target of a recorded call by its callable name and payload.

        Tools are found by name, resources by the URI in the payload, prompts by the name after `prompt:`.

        Raises:
            NotFound: the target no longer exists.
        """
        match name.partition(":"):
            case ("resource", ":", "read"):
                return self.find_resource(plugin, str(payload.get("uri")))
            case ("resource", ":", ("subscribe" | "unsubscribe") as verb):
                return self.subscription_target(plugin, str(payload.get("uri")), subscribe=verb == "subscribe")
            case ("prompt", ":", prompt):
                found = self.find_prompt(plugin, prompt)
                if not isinstance(found, CallTarget):  # its text is in the manifest now, and no server is called
                    raise self._not_found_error(plugin, name)
                return found
            case ("completion", ":", _):
                return self.completion_target(plugin)
            case _:
                return self.find_callable(plugin, name)

    def targets_of(self, plugin: str) -> tuple[CallTarget, ...]:
        """Return all targets of a plugin.

        Raises:
            NotFound: it is not enabled.
        """
        self.entry(plugin)
        return tuple(self._by_plugin[plugin].values())

    def find_resource(self, plugin: str, uri: str) -> CallTarget:
        """Find a resource of a plugin by its URI.

        Raises:
            NotFound: no such plugin is enabled, or it has no resource there.
            PluginError: its manifest declares the resource, but no server provides it.
        """
        entry = self.entry(plugin)
        withheld = None
        if entry.discovered:
            withheld = _documents_of(entry).require_resource(entry.manifest.name, uri, entry.key.tenant)
        return CallTarget(entry, READ_RESOURCE, withheld, requested_name=uri, schemas=_schemas_of(READ_RESOURCE))

    def find_prompt(self, plugin: str, name: str) -> CallTarget | PromptOffer:
        """Find a prompt of a plugin: the target to call on its server, or the prompt itself if its text is known.

        Raises:
            NotFound: no such plugin is enabled, or it has no such prompt.
            PluginError: its manifest declares the prompt without a text, and no server provides it.
        """
        entry = self.entry(plugin)
        # Until the server has listed its prompts, only texts of the manifest are known.
        if not entry.discovered:
            manifest_prompt = documents_from_manifest(entry.manifest).prompts.get(name)
            if manifest_prompt is not None and manifest_prompt.text is not None:
                return manifest_prompt
            return CallTarget(entry, CallableSpec(f"prompt:{name}", CallableForm.PROMPT), requested_name=name)
        found = _documents_of(entry).find_prompt(entry.manifest.name, name)
        if isinstance(found, WithheldDefinition):
            return CallTarget(entry, CallableSpec(f"prompt:{name}", CallableForm.PROMPT), found, requested_name=name)
        if found.text is not None:
            return found
        if not entry.dynamic:
            raise PluginError(
                f"{entry.manifest.name} declares the prompt {name!r} but has no server that serves it",
                code="prompt.not_served",
                hint="the plugin's author has to write the prompt's text",
                details={"plugin": entry.manifest.name},
            )
        return CallTarget(entry, found.spec, requested_name=name, schemas=_schemas_of(found.spec))

    def subscription_target(self, plugin: str, uri: str, *, subscribe: bool) -> CallTarget:
        """Return the target to subscribe to a resource's changes, or to unsubscribe. Raises as `find_resource` does."""
        spec = SUBSCRIBE_RESOURCE if subscribe else UNSUBSCRIBE_RESOURCE
        return CallTarget(
            self.entry(plugin),
            spec,
            self.find_resource(plugin, uri).withheld,
            requested_name=uri,
            schemas=_schemas_of(spec),
        )

    def completion_target(self, plugin: str) -> CallTarget:
        """Return the target that completes arguments of a plugin's prompts and resource templates.

        Raises:
            NotFound: no such plugin is enabled.
        """
        return CallTarget(
            self.entry(plugin),
            COMPLETE_ARGUMENT,
            requested_name=COMPLETE_ARGUMENT.name,
            schemas=_schemas_of(COMPLETE_ARGUMENT),
        )

    def entries(self) -> tuple[CatalogueEntry, ...]:
        """Return every callable plugin once, without aliases."""
        return tuple(entry for name, entry in self._entries.items() if name == entry.manifest.name)

    def entry(self, plugin: str) -> CatalogueEntry:
        """Return the entry of a plugin by its name or alias.

        Raises:
            NotFound: it is not enabled.
        """
        entry = self._entries.get(plugin)
        if entry is None:
            raise self._not_found_error(plugin, "")
        return entry

    def _not_found_error(self, plugin: str, callable_name: str) -> NotFound:
        if plugin not in self._by_plugin and plugin in self._disabled_reasons:
            return self._disabled_error(plugin)
        if plugin not in self._by_plugin:
            close_matches = difflib.get_close_matches(plugin, self._by_plugin, n=1)
            return NotFound(
                f"no plugin {plugin!r} is enabled",
                code="plugin.not_enabled",
                hint=f"did you mean {close_matches[0]!r}? If not, enable it" if close_matches else "",
                action=Action.of("plugin.enable", plugin=plugin, tenant=self._tenant),
                details={"plugin": plugin},
            )
        hint, action = self._offered_names(plugin, "it offers")
        return NotFound(
            f"{plugin} has no callable {callable_name!r}" if callable_name else f"name a callable of {plugin}",
            code="callable.not_found",
            hint=hint,
            action=action,
            details={"plugin": plugin},
        )

    def _offered_names(self, plugin: str, lead_in: str) -> tuple[str, Action | None]:
        """List the callable names of a plugin as a hint; with the action to see them if there are none or too many."""
        list_tools = Action.of("plugin.tools", plugin=self._entries[plugin].key.plugin, tenant=self._tenant)
        names = list(self._by_plugin.get(plugin, ()))
        if not names and plugin in self._undiscovered:
            return "it never ran, so its tools are not known yet", list_tools
        if not names:
            return f"{lead_in} nothing to call", list_tools
        listing = f"{lead_in}: {', '.join(names[:MAX_NAMES_IN_HINT])}"
        if len(names) <= MAX_NAMES_IN_HINT:
            return listing, None
        return f"{listing} and {len(names) - MAX_NAMES_IN_HINT} more", list_tools

    def _disabled_error(self, plugin: str) -> NotFound:
        reason = self._disabled_reasons[plugin]
        return NotFound(
            f"{plugin} is not enabled: it {reason}",
            code="plugin.not_enabled",
            hint=UPGRADE_FIRST_HINT,
            action=Action.of("plugin.enable", plugin=plugin, tenant=self._tenant),
            details={"plugin": plugin, "given_up": reason},
        )

    def refresh(self, target: CallTarget) -> CallTarget:
        """Look up the current definition of a target.

        Raises:
            NotFound: its plugin no longer has such a callable.
        """
        current = self._find_current(target)
        if current is None or not current.discovered:  # by now the server was discovered, and lists no such callable
            raise self._not_found_error(target.key.plugin, target.requested_name)
        return current

    def _find_current(self, target: CallTarget) -> CallTarget | None:
        match target.spec.form:
            case CallableForm.RESOURCE:
                return self.find_resource(target.key.plugin, target.requested_name)
            case CallableForm.PROMPT:
                found = self.find_prompt(target.key.plugin, target.requested_name)
                return found if isinstance(found, CallTarget) else None
            case CallableForm.SUBSCRIPTION:
                return self.subscription_target(
                    target.key.plugin, target.requested_name, subscribe=target.spec is SUBSCRIBE_RESOURCE
                )
            case CallableForm.COMPLETION:
                return self.completion_target(target.key.plugin)
            case _:
                return self._by_plugin.get(target.key.plugin, {}).get(target.spec.name)

    def names(self) -> tuple[str, ...]:
        """Return all full names that may be called, sorted."""
        return tuple(sorted(name for name, targets in self._by_name.items() if targets[0].withheld is None))

    def _unknown_name_error(self, name: str, names: Iterable[str]) -> NotFound:
        disabled = [one for one in self._disabled_reasons if name == one or name.startswith(f"{one}.")]
        if disabled:
            return self._disabled_error(max(disabled, key=len))
        close_matches = difflib.get_close_matches(name, list(names), n=1)
        owners = (one for one in self._by_plugin if name == one or name.startswith(f"{one}."))
        plugin = name if name in self._by_plugin else next(owners, None)
        action = None
        if close_matches and name not in self._by_plugin:  # a plugin's exact name is no typo
            hint = f"did you mean {close_matches[0]!r}?"
        elif plugin:
            hint, action = self._offered_names(plugin, f"{plugin} offers")
        else:
            hint = "only callables of enabled plugins can be called"
            action = Action.of("plugin.list", tenant=self._tenant)
        return NotFound(f"there is no callable {name!r}", code="callable.not_found", hint=hint, action=action)
