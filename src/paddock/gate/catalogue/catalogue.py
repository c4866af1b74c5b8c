"""Everything that can be called, by name: a table of plugins and callables, never a string that is taken apart."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict, Invalid, NotFound, PluginError, Problem
from paddock.core.ids import DEFAULT_TENANT, Tenant
from paddock.core.schema.compile import CompiledSchema, compile_schema
from paddock.gate.audit_entry import EntryTemplate
from paddock.gate.catalogue.documents import (
    COMPLETE_ARGUMENT,
    READ_RESOURCE,
    SUBSCRIBE_RESOURCE,
    UNSUBSCRIBE_RESOURCE,
    DocumentIndex,
    PromptOffer,
    documents_from_manifest,
)
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec, Manifest
from paddock.plugins.dialects.envelope import result_field, unwrap_field
from paddock.plugins.manage.repair_text import tenant_option, upgrade_or_enable_hint
from paddock.plugins.tool_pinning.normalize import printable_name
from paddock.plugins.tool_pinning.offer import WithheldDefinition
from paddock.policy.target import CallableTarget, callable_target
from paddock.runtime.deployment import InstanceKey

READ_ONLY_EFFECTS = (Effect.READ_ONLY.value,)
MAX_NAMES_IN_HINT = 12  # callables in a hint


class CallTarget:
    """One callable of one plugin version, with its schemas ready to check.

    Of a plugin that lists its callables itself it is only what was known last, or a name that was not `met` yet: look
    again once the plugin runs. `withheld` says why it may not be called. `asked` is what it was found by: its name, or
    the address of a document to read.
    """

    __slots__ = (
        "_checked_field",
        "_definition_hash",
        "_effects",
        "_input",
        "_output",
        "_policy_resource",
        "discovered",
        "dynamic",
        "entry",
        "entry_template",
        "key",
        "manifest",
        "requested_name",
        "schemas",
        "spec",
        "withheld",
    )  # fmt: skip

    def __init__(
        self,
        entry: CatalogueEntry,
        spec: CallableSpec,
        withheld: WithheldDefinition | None = None,
        *,
        requested_name: str = "",
        schemas: CallableSchemas | None = None,
    ) -> None:
        self.requested_name = requested_name or spec.name
        self.entry = entry
        self.key = entry.key
        self.manifest = entry.manifest
        self.dynamic = entry.dynamic
        self.discovered = entry.discovered
        self.spec = spec
        self.schemas = schemas or entry.schemas.get(spec.name, CallableSchemas({}, {}))
        self.withheld = withheld
        self._input: CompiledSchema | None = None
        self._output: CompiledSchema | None = None
        self._policy_resource: CallableTarget | None = None
        self._effects: tuple[str, ...] | None = None
        self._definition_hash: str | None = None
        self._checked_field: str | None = None
        self.entry_template: EntryTemplate | None = None  # how the ledger told of the last call to it

    @property
    def policy_resource(self) -> CallableTarget:
        """What the rules see of it."""
        if self._policy_resource is None:
            entry = self.entry
            self._policy_resource = callable_target(
                self.manifest, self.spec, tier=entry.tier, signature=entry.signature, flags=entry.flags_for(self)
            )
        return self._policy_resource

    @property
    def effects(self) -> tuple[str, ...]:
        """What it may do to the world, in order."""
        if self._effects is None:
            self._effects = tuple(sorted(self.policy_resource.effects))
        return self._effects

    @property
    def read_only(self) -> bool:
        return self.effects == READ_ONLY_EFFECTS

    @property
    def definition_hash(self) -> str:
        """The hash of how it describes itself: whoever approved it approved that."""
        if self._definition_hash is None:
            definition = asdict(self.spec) | {"input": self.schemas.input, "output": self.schemas.output}
            self._definition_hash = hash_of(definition)
        return self._definition_hash

    @property
    def title(self) -> str:
        """What people are told that it is: its plugin and what was asked for, once where both have one name."""
        return (
            self.requested_name
            if self.requested_name == self.key.plugin
            else f"{self.key.plugin} {self.requested_name}"
        )

    @property
    def input(self) -> CompiledSchema:
        """What its parameters must be; compiled when it is first called."""
        if self._input is None:
            self._input = self._compile(self.schemas.input, "input")
        return self._input

    @property
    def output(self) -> CompiledSchema:
        if self._output is None:
            self._output = self._compile(self.schemas.output, "output")
            self._checked_field = result_field(self.manifest)
        return self._output

    def output_is_valid(self, result: Any) -> bool:
        """Whether an answer is what was promised; `broken_by` says in which way it is not."""
        return self.output.is_valid(unwrap_field(self._checked_field, result))

    def output_errors(self, result: Any) -> list[Problem]:
        """What is wrong with an answer, by what was promised of it."""
        return self.output.errors(unwrap_field(self._checked_field, result))

    def _compile(self, schema: Any, side: str) -> CompiledSchema:
        try:
            return compile_schema(schema)
        except Invalid as error:
            raise PluginError(
                f"the {side} schema of {self.title} cannot be used: {error.problems[0].message}",
                code="schema.unusable",
                details={"plugin": self.key.plugin},
            ) from error


@dataclass(frozen=True, slots=True)
class CallableSchemas:
    """The schemas of one callable as values; a file of the package is read already. `{}` allows everything."""

    input: Any
    output: Any


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A plugin that may be called, with the schemas of each of its callables by name."""

    key: InstanceKey
    manifest: Manifest
    schemas: Mapping[str, CallableSchemas]
    aliases: tuple[str, ...] = ()
    dynamic: bool = False  # its callables are what its server says, as far as it was met
    discovered: bool = True  # whether the server has said anything yet
    withheld: Mapping[str, WithheldDefinition] = field(
        default_factory=dict[str, WithheldDefinition]
    )  # by name, beside the callables
    documents: DocumentIndex | None = None  # None: what the manifest says
    tier: str = "personal"  # the effective trust tier
    signature: str = "unsigned"  # or what its signature is worth here, or `embedded`, or `remote`
    # What is odd about the words of each callable, by its name; under the empty name, about those of the whole plugin.
    flags: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def flags_for(self, target: CallTarget) -> frozenset[str]:
        """What is odd about the words of one target."""
        if not self.flags:
            return frozenset()
        is_resource = target.spec.form is CallableForm.RESOURCE
        name = f"resource:{printable_name(target.requested_name)}" if is_resource else target.spec.name
        return self.flags.get("", frozenset[str]()) | self.flags.get(name, frozenset[str]())


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
    """What one tenant can call right now. A new one replaces it whole when plugins come and go.

    Args:
        entries: The plugins that may be called.
        given_up: By name or alias: why a plugin may not that a daemon disabled.
        tenant: Whose it is.
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
        """A callable by its full name.

        Raises:
            NotFound: nothing goes by it; says what comes close.
            Conflict: two plugins claim it. Neither gets the call: which one was meant is not ours to guess.
        """
        targets = self._by_name.get(name) or self._undiscovered_targets(name)
        if not targets:
            raise self._unknown_name_error(name, self._by_name)
        if len(targets) > 1:
            plugins = " and ".join(sorted({target.key.plugin for target in targets}))
            raise Conflict(
                f"{plugins} both have a callable that is called {name}",
                code="callable.ambiguous",
                hint="disable one of them, or name plugin and callable apart: POST /plugins/PLUGIN/call/CALLABLE",
            )
        return targets[0]

    def _undiscovered_targets(self, name: str) -> list[CallTarget]:
        """What this may be the name of: any tool of a server that has not said yet which it has."""
        owners = [(plugin, entry) for plugin, entry in self._undiscovered.items() if name.startswith(f"{plugin}.")]
        return [
            CallTarget(entry, CallableSpec(name.removeprefix(f"{plugin}."), CallableForm.TOOL))
            for plugin, entry in owners
        ]

    def find_callable(self, plugin: str, callable_name: str) -> CallTarget:
        """A callable of a plugin. Without a name: the only one there is.

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
        """The target of a call that is on record, by the name and the payload that it was made with.

        Tools go by their names; documents by the address in the payload, prompts by the name in it.

        Raises:
            NotFound: there is no such target any more.
        """
        match name.partition(":"):
            case ("resource", ":", "read"):
                return self.find_resource(plugin, str(payload.get("uri")))
            case ("resource", ":", ("subscribe" | "unsubscribe") as verb):
                return self.subscription_target(plugin, str(payload.get("uri")), subscribe=verb == "subscribe")
            case ("prompt", ":", prompt):
                found = self.find_prompt(plugin, prompt)
                if not isinstance(found, CallTarget):  # its text stands in the manifest by now, and nobody is called
                    raise self._not_found_error(plugin, name)
                return found
            case ("completion", ":", _):
                return self.completion_target(plugin)
            case _:
                return self.find_callable(plugin, name)

    def targets_of(self, plugin: str) -> tuple[CallTarget, ...]:
        """Everything that a plugin can be called for.

        Raises:
            NotFound: it is not enabled.
        """
        self.entry(plugin)
        return tuple(self._by_plugin[plugin].values())

    def find_resource(self, plugin: str, uri: str) -> CallTarget:
        """A document of a plugin.

        Raises:
            NotFound: no such plugin is enabled, or it has nothing there.
            PluginError: it declares the document, and nobody serves it.
        """
        entry = self.entry(plugin)
        withheld = None if not entry.discovered else _documents_of(entry).require_resource(entry.manifest.name, uri)
        return CallTarget(entry, READ_RESOURCE, withheld, requested_name=uri, schemas=_schemas_of(READ_RESOURCE))

    def find_prompt(self, plugin: str, name: str) -> CallTarget | PromptOffer:
        """A prompt of a plugin: what to ask its server, or the prompt itself where its text is known.

        Raises:
            NotFound: no such plugin is enabled, or it has no such prompt.
            PluginError: it declares the prompt, and nobody has its text.
        """
        entry = self.entry(plugin)
        if (
            not entry.discovered
        ):  # as long as the server has not said what it has, a text of the manifest is all there is
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
                f"{entry.manifest.name} declares the prompt {name!r}, and has no server that would give it",
                code="prompt.not_served",
                hint="its author has to write the prompt's text",
                details={"plugin": entry.manifest.name},
            )
        return CallTarget(entry, found.spec, requested_name=name, schemas=_schemas_of(found.spec))

    def subscription_target(self, plugin: str, uri: str, *, subscribe: bool) -> CallTarget:
        """Being told when a document of a plugin changes, or no more. Raises as `resource` does."""
        spec = SUBSCRIBE_RESOURCE if subscribe else UNSUBSCRIBE_RESOURCE
        return CallTarget(
            self.entry(plugin),
            spec,
            self.find_resource(plugin, uri).withheld,
            requested_name=uri,
            schemas=_schemas_of(spec),
        )

    def completion_target(self, plugin: str) -> CallTarget:
        """What the arguments of a plugin's prompts and templates may be, as far as its server can guess.

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
        """Every plugin that may be called, once."""
        return tuple(entry for name, entry in self._entries.items() if name == entry.manifest.name)

    def entry(self, plugin: str) -> CatalogueEntry:
        """A plugin that may be called.

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
            tenant_flag = tenant_option(self._tenant)
            close_matches = difflib.get_close_matches(plugin, self._by_plugin, n=1)
            enable_command = (
                f"paddock plugin enable {plugin}{tenant_flag}   # see also: paddock plugin list{tenant_flag}"
            )
            return NotFound(
                f"no plugin {plugin!r} is enabled",
                code="plugin.not_enabled",
                hint=f"did you mean {close_matches[0]!r}? If not: {enable_command}"
                if close_matches
                else enable_command,
                details={"plugin": plugin},
            )
        return NotFound(
            f"{plugin} has no {callable_name!r}" if callable_name else f"say which callable of {plugin} you mean",
            code="callable.not_found",
            hint=self._names_hint(plugin, "it offers"),
            details={"plugin": plugin},
        )

    def _names_hint(self, plugin: str, lead_in: str) -> str:
        """The names of what a plugin has; where there are none to tell, or more than fit, how to see them."""
        list_command = f"paddock plugin tools {self._entries[plugin].key.plugin}{tenant_option(self._tenant)}"
        names = list(self._by_plugin.get(plugin, ()))
        if not names and plugin in self._undiscovered:
            return f"nobody knows yet what it offers, since it never ran; ask it: {list_command}"
        if not names:
            return f"{lead_in} nothing to call; see: {list_command}"
        listing = f"{lead_in}: {', '.join(names[:MAX_NAMES_IN_HINT])}"
        return (
            listing
            if len(names) <= MAX_NAMES_IN_HINT
            else f"{listing} and {len(names) - MAX_NAMES_IN_HINT} more; see: {list_command}"
        )

    def _disabled_error(self, plugin: str) -> NotFound:
        reason = self._disabled_reasons[plugin]
        return NotFound(
            f"{plugin} is not enabled: it {reason}",
            code="plugin.not_enabled",
            hint=upgrade_or_enable_hint(plugin, self._tenant),
            details={"plugin": plugin, "given_up": reason},
        )

    def refresh(self, target: CallTarget) -> CallTarget:
        """The same callable as it is known now.

        Raises:
            NotFound: its plugin has no such callable any more.
        """
        current = self._find_current(target)
        if current is None or not current.discovered:  # whoever asks has met the server, and it lists no such thing
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
        """Every full name that may be called, sorted."""
        return tuple(sorted(name for name, targets in self._by_name.items() if targets[0].withheld is None))

    def _unknown_name_error(self, name: str, names: Iterable[str]) -> NotFound:
        disabled = [one for one in self._disabled_reasons if name == one or name.startswith(f"{one}.")]
        if disabled:
            return self._disabled_error(max(disabled, key=len))
        close_matches = difflib.get_close_matches(name, list(names), n=1)
        owners = (one for one in self._by_plugin if name == one or name.startswith(f"{one}."))
        plugin = name if name in self._by_plugin else next(owners, None)
        if close_matches and name not in self._by_plugin:  # where a plugin is named, nothing is a slip of the hand
            hint = f"did you mean {close_matches[0]!r}?"
        elif plugin:
            hint = self._names_hint(plugin, f"{plugin} offers")
        else:
            hint = f"only enabled plugins can be called; see: paddock plugin list{tenant_option(self._tenant)}"
        return NotFound(f"nothing called {name!r} can be called", code="callable.not_found", hint=hint)
