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
from paddock.core.schema import CompiledSchema, compile_schema
from paddock.gate.documents import (
    COMPLETE,
    READ,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Documents,
    OfferedPrompt,
    declared_documents,
)
from paddock.gate.phrase import Phrase
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Form, Manifest
from paddock.plugins.definitions.examining import shown_name
from paddock.plugins.definitions.offering import Withheld
from paddock.plugins.mending import for_tenant, mend_and_enable
from paddock.plugins.runtimes.envelopes import checked_field, inside
from paddock.plugins.supervision.deployment import InstanceKey
from paddock.policy.target import CallableTarget, callable_target

READS = (Effect.READ_ONLY.value,)
MOST_NAMED = 12  # callables in a hint


class Target:
    """One callable of one plugin version, with its schemas ready to check.

    Of a plugin that lists its callables itself it is only what was known last, or a name that was not `met` yet: look
    again once the plugin runs. `withheld` says why it may not be called. `asked` is what it was found by: its name, or
    the address of a document to read.
    """

    __slots__ = (
        "_checked_field", "_definition", "_effects", "_input", "_output", "_ruled", "asked", "entry", "key",
        "lists_itself", "manifest", "met", "phrase", "schemas", "spec", "withheld",
    )  # fmt: skip

    def __init__(
        self,
        entry: Entry,
        spec: CallableSpec,
        withheld: Withheld | None = None,
        *,
        asked: str = "",
        schemas: Schemas | None = None,
    ) -> None:
        self.asked = asked or spec.name
        self.entry = entry
        self.key = entry.key
        self.manifest = entry.manifest
        self.lists_itself = entry.lists_itself
        self.met = entry.met
        self.spec = spec
        self.schemas = schemas or entry.schemas.get(spec.name, Schemas({}, {}))
        self.withheld = withheld
        self._input: CompiledSchema | None = None
        self._output: CompiledSchema | None = None
        self._ruled: CallableTarget | None = None
        self._effects: tuple[str, ...] | None = None
        self._definition: str | None = None
        self._checked_field: str | None = None
        self.phrase: Phrase | None = None  # how the ledger told of the last call to it

    @property
    def ruled(self) -> CallableTarget:
        """What the rules see of it."""
        if self._ruled is None:
            entry = self.entry
            self._ruled = callable_target(
                self.manifest, self.spec, tier=entry.tier, signature=entry.signature, flags=entry.flags_of(self)
            )
        return self._ruled

    @property
    def effects(self) -> tuple[str, ...]:
        """What it may do to the world, in order."""
        if self._effects is None:
            self._effects = tuple(sorted(self.ruled.effects))
        return self._effects

    @property
    def only_reads(self) -> bool:
        return self.effects == READS

    @property
    def definition(self) -> str:
        """The hash of how it describes itself: whoever approved it approved that."""
        if self._definition is None:
            described = asdict(self.spec) | {"input": self.schemas.input, "output": self.schemas.output}
            self._definition = hash_of(described)
        return self._definition

    @property
    def title(self) -> str:
        """What people are told that it is: its plugin and what was asked for, once where both have one name."""
        return self.asked if self.asked == self.key.plugin else f"{self.key.plugin} {self.asked}"

    @property
    def input(self) -> CompiledSchema:
        """What its parameters must be; compiled when it is first called."""
        if self._input is None:
            self._input = self._compiled(self.schemas.input, "input")
        return self._input

    @property
    def output(self) -> CompiledSchema:
        if self._output is None:
            self._output = self._compiled(self.schemas.output, "output")
            self._checked_field = checked_field(self.manifest)
        return self._output

    def keeps_to(self, result: Any) -> bool:
        """Whether an answer is what was promised; `broken_by` says in which way it is not."""
        return self.output.is_valid(inside(self._checked_field, result))

    def broken_by(self, result: Any) -> list[Problem]:
        """What is wrong with an answer, by what was promised of it."""
        return self.output.errors(inside(self._checked_field, result))

    def _compiled(self, schema: Any, side: str) -> CompiledSchema:
        try:
            return compile_schema(schema)
        except Invalid as error:
            raise PluginError(
                f"the {side} schema of {self.title} cannot be used: {error.problems[0].message}",
                code="schema.unusable",
                details={"plugin": self.key.plugin},
            ) from error


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of one callable as values; a file of the package is read already. `{}` allows everything."""

    input: Any
    output: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A plugin that may be called, with the schemas of each of its callables by name."""

    key: InstanceKey
    manifest: Manifest
    schemas: Mapping[str, Schemas]
    aliases: tuple[str, ...] = ()
    lists_itself: bool = False  # its callables are what its server says, as far as it was met
    met: bool = True  # whether the server has said anything yet
    withheld: Mapping[str, Withheld] = field(default_factory=dict[str, Withheld])  # by name, beside the callables
    documents: Documents | None = None  # None: what the manifest says
    tier: str = "personal"  # the effective trust tier
    signature: str = "unsigned"  # or what its signature is worth here, or `embedded`, or `remote`
    # What is odd about the words of each callable, by its name; under the empty name, about those of the whole plugin.
    flags: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def flags_of(self, target: Target) -> frozenset[str]:
        """What is odd about the words of one target."""
        if not self.flags:
            return frozenset()
        read = target.spec.form is Form.RESOURCE
        name = f"resource:{shown_name(target.asked)}" if read else target.spec.name
        return self.flags.get("", frozenset[str]()) | self.flags.get(name, frozenset[str]())


def _targets(entry: Entry) -> dict[str, Target]:
    own = {spec.name: Target(entry, spec) for spec in entry.manifest.callables}
    return own | {
        name: Target(entry, CallableSpec(name, Form.TOOL), withheld) for name, withheld in entry.withheld.items()
    }


def _documents(entry: Entry) -> Documents:
    return entry.documents if entry.documents is not None else declared_documents(entry.manifest)


def _schemas(spec: CallableSpec) -> Schemas:
    return Schemas(spec.input_schema or {}, {})


class Catalogue:
    """What one tenant can call right now. A new one replaces it whole when plugins come and go.

    Args:
        entries: The plugins that may be called.
        given_up: By name or alias: why a plugin may not that a daemon disabled.
        tenant: Whose it is.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        given_up: Mapping[str, str] = MappingProxyType({}),
        tenant: Tenant = DEFAULT_TENANT,
    ) -> None:
        self._given_up = given_up
        self._tenant = tenant
        self._by_name: dict[str, list[Target]] = {}
        self._by_plugin: dict[str, dict[str, Target]] = {}
        self._unmet: dict[str, Entry] = {}
        self._entries: dict[str, Entry] = {}  # by name and alias
        named = [(entry, _targets(entry)) for entry in entries]
        for entry, own in named:
            self._by_plugin[entry.manifest.name] = own
            self._entries[entry.manifest.name] = entry
            self._list(entry.manifest.name, own)
            self._note_unmet(entry.manifest.name, entry)
        # After all real names: an alias never takes a plugin's own name, or that of its callables.
        taken = frozenset(self._by_name)
        for entry, own in named:
            for alias in entry.aliases:
                if alias not in self._by_plugin:
                    self._by_plugin[alias] = own
                    self._entries[alias] = entry
                    self._list(alias, own, beside=taken)
                    self._note_unmet(alias, entry)

    def _note_unmet(self, name: str, entry: Entry) -> None:
        if entry.lists_itself and not entry.met:
            self._unmet[name] = entry

    def _list(self, plugin: str, own: Mapping[str, Target], beside: frozenset[str] = frozenset()) -> None:
        for target in own.values():
            alone = target.spec.form is Form.WHOLE and target.spec is target.manifest.whole
            for name in {f"{plugin}.{target.spec.name}", *([plugin] if alone else ())} - beside:
                self._by_name.setdefault(name, []).append(target)

    def find(self, name: str) -> Target:
        """A callable by its full name.

        Raises:
            NotFound: nothing goes by it; says what comes close.
            Conflict: two plugins claim it. Neither gets the call: which one was meant is not ours to guess.
        """
        targets = self._by_name.get(name) or self._of_unmet(name)
        if not targets:
            raise self._unknown(name, self._by_name)
        if len(targets) > 1:
            plugins = " and ".join(sorted({target.key.plugin for target in targets}))
            raise Conflict(
                f"{plugins} both have a callable that is called {name}",
                code="callable.ambiguous",
                hint="disable one of them, or name plugin and callable apart: POST /plugins/PLUGIN/call/CALLABLE",
            )
        return targets[0]

    def _of_unmet(self, name: str) -> list[Target]:
        """What this may be the name of: any tool of a server that has not said yet which it has."""
        owners = [(plugin, entry) for plugin, entry in self._unmet.items() if name.startswith(f"{plugin}.")]
        return [Target(entry, CallableSpec(name.removeprefix(f"{plugin}."), Form.TOOL)) for plugin, entry in owners]

    def find_in(self, plugin: str, callable_name: str) -> Target:
        """A callable of a plugin. Without a name: the only one there is.

        Raises:
            NotFound: no such plugin is enabled, or it has no such callable.
        """
        own = self._by_plugin.get(plugin)
        if own is None:
            raise self._not_offered(plugin, callable_name)
        main = [target for target in own.values() if target.spec.form is not Form.ACTION]
        if not callable_name and len(main) == 1:
            return main[0]
        target = own.get(callable_name) or own.get(callable_name.removeprefix(f"{plugin}."))
        if target is None and callable_name and plugin in self._unmet:
            return Target(self._unmet[plugin], CallableSpec(callable_name, Form.TOOL))
        if target is None:
            raise self._not_offered(plugin, callable_name)
        return target

    def offered_by(self, plugin: str) -> tuple[Target, ...]:
        """Everything that a plugin can be called for.

        Raises:
            NotFound: it is not enabled.
        """
        self.entry(plugin)
        return tuple(self._by_plugin[plugin].values())

    def resource(self, plugin: str, uri: str) -> Target:
        """A document of a plugin.

        Raises:
            NotFound: no such plugin is enabled, or it has nothing there.
            PluginError: it declares the document, and nobody serves it.
        """
        entry = self.entry(plugin)
        withheld = None if not entry.met else _documents(entry).resource(entry.manifest.name, uri)
        return Target(entry, READ, withheld, asked=uri, schemas=_schemas(READ))

    def prompt(self, plugin: str, name: str) -> Target | OfferedPrompt:
        """A prompt of a plugin: what to ask its server, or the prompt itself where its text is known.

        Raises:
            NotFound: no such plugin is enabled, or it has no such prompt.
            PluginError: it declares the prompt, and nobody has its text.
        """
        entry = self.entry(plugin)
        if not entry.met:  # as long as the server has not said what it has, a text of the manifest is all there is
            written = declared_documents(entry.manifest).prompts.get(name)
            if written is not None and written.text is not None:
                return written
            return Target(entry, CallableSpec(f"prompt:{name}", Form.PROMPT), asked=name)
        found = _documents(entry).prompt(entry.manifest.name, name)
        if isinstance(found, Withheld):
            return Target(entry, CallableSpec(f"prompt:{name}", Form.PROMPT), found, asked=name)
        if found.text is not None:
            return found
        if not entry.lists_itself:
            raise PluginError(
                f"{entry.manifest.name} declares the prompt {name!r}, and has no server that would give it",
                code="prompt.not_served",
                hint="its author has to write the prompt's text",
                details={"plugin": entry.manifest.name},
            )
        return Target(entry, found.spec, asked=name, schemas=_schemas(found.spec))

    def subscription(self, plugin: str, uri: str, *, wanted: bool) -> Target:
        """Being told when a document of a plugin changes, or no more. Raises as `resource` does."""
        spec = SUBSCRIBE if wanted else UNSUBSCRIBE
        return Target(self.entry(plugin), spec, self.resource(plugin, uri).withheld, asked=uri, schemas=_schemas(spec))

    def completion(self, plugin: str) -> Target:
        """What the arguments of a plugin's prompts and templates may be, as far as its server can guess.

        Raises:
            NotFound: no such plugin is enabled.
        """
        return Target(self.entry(plugin), COMPLETE, asked=COMPLETE.name, schemas=_schemas(COMPLETE))

    def entries(self) -> tuple[Entry, ...]:
        """Every plugin that may be called, once."""
        return tuple(entry for name, entry in self._entries.items() if name == entry.manifest.name)

    def entry(self, plugin: str) -> Entry:
        """A plugin that may be called.

        Raises:
            NotFound: it is not enabled.
        """
        entry = self._entries.get(plugin)
        if entry is None:
            raise self._not_offered(plugin, "")
        return entry

    def _not_offered(self, plugin: str, callable_name: str) -> NotFound:
        if plugin not in self._by_plugin and plugin in self._given_up:
            return self._lost(plugin)
        if plugin not in self._by_plugin:
            own = for_tenant(self._tenant)
            close = difflib.get_close_matches(plugin, self._by_plugin, n=1)
            enable = f"paddock plugin enable {plugin}{own}   # see also: paddock plugin list{own}"
            return NotFound(
                f"no plugin {plugin!r} is enabled",
                code="plugin.not_enabled",
                hint=f"did you mean {close[0]!r}? If not: {enable}" if close else enable,
                details={"plugin": plugin},
            )
        return NotFound(
            f"{plugin} has no {callable_name!r}" if callable_name else f"say which callable of {plugin} you mean",
            code="callable.not_found",
            hint=self._offers(plugin, "it offers"),
            details={"plugin": plugin},
        )

    def _offers(self, plugin: str, words: str) -> str:
        """The names of what a plugin has; where there are none to tell, or more than fit, how to see them."""
        look = f"paddock plugin tools {self._entries[plugin].key.plugin}{for_tenant(self._tenant)}"
        own = list(self._by_plugin.get(plugin, ()))
        if not own and plugin in self._unmet:
            return f"nobody knows yet what it offers, since it never ran; ask it: {look}"
        if not own:
            return f"{words} nothing to call; see: {look}"
        named = f"{words}: {', '.join(own[:MOST_NAMED])}"
        return named if len(own) <= MOST_NAMED else f"{named} and {len(own) - MOST_NAMED} more; see: {look}"

    def _lost(self, plugin: str) -> NotFound:
        why = self._given_up[plugin]
        return NotFound(
            f"{plugin} is not enabled: it {why}",
            code="plugin.not_enabled",
            hint=mend_and_enable(plugin, self._tenant),
            details={"plugin": plugin, "given_up": why},
        )

    def again(self, target: Target) -> Target:
        """The same callable as it is known now.

        Raises:
            NotFound: its plugin has no such callable any more.
        """
        known = self._known(target)
        if known is None or not known.met:  # whoever asks has met the server, and it lists no such thing
            raise self._not_offered(target.key.plugin, target.asked)
        return known

    def _known(self, target: Target) -> Target | None:
        match target.spec.form:
            case Form.RESOURCE:
                return self.resource(target.key.plugin, target.asked)
            case Form.PROMPT:
                found = self.prompt(target.key.plugin, target.asked)
                return found if isinstance(found, Target) else None
            case Form.SUBSCRIPTION:
                return self.subscription(target.key.plugin, target.asked, wanted=target.spec is SUBSCRIBE)
            case Form.COMPLETION:
                return self.completion(target.key.plugin)
            case _:
                return self._by_plugin.get(target.key.plugin, {}).get(target.spec.name)

    def names(self) -> tuple[str, ...]:
        """Every full name that may be called, sorted."""
        return tuple(sorted(name for name, targets in self._by_name.items() if targets[0].withheld is None))

    def _unknown(self, name: str, known: Iterable[str]) -> NotFound:
        lost = [one for one in self._given_up if name == one or name.startswith(f"{one}.")]
        if lost:
            return self._lost(max(lost, key=len))
        close = difflib.get_close_matches(name, list(known), n=1)
        owners = (one for one in self._by_plugin if name == one or name.startswith(f"{one}."))
        plugin = name if name in self._by_plugin else next(owners, None)
        if close and name not in self._by_plugin:  # where a plugin is named, nothing is a slip of the hand
            hint = f"did you mean {close[0]!r}?"
        elif plugin:
            hint = self._offers(plugin, f"{plugin} offers")
        else:
            hint = f"only enabled plugins can be called; see: paddock plugin list{for_tenant(self._tenant)}"
        return NotFound(f"nothing called {name!r} can be called", code="callable.not_found", hint=hint)
