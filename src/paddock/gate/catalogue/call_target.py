"""Call target: one callable of one plugin version, with all that the gate needs to know of it."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from paddock.core.canonical import hash_of
from paddock.core.errors import Invalid, PluginError, Problem
from paddock.core.schema.compile import CompiledSchema, compile_schema
from paddock.gate.audit_entry import EntryTemplate
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.manifest.effects import Claim, Effect, claim_of
from paddock.manifest.model import CallableSpec
from paddock.plugins.dialects.envelope import result_field, unwrap_field
from paddock.plugins.tool_pinning.offer import WithheldDefinition
from paddock.policy.target import CallableTarget, callable_target

READ_ONLY_EFFECTS = (Effect.READ_ONLY.value,)


class CallTarget:
    """One callable of one plugin version, with its schemas, compiled on first use.

    For a `dynamic` plugin, which lists its callables itself, it is only the last known definition, or a name that is
    not `discovered` yet: refresh it once the plugin runs. `withheld` says why it may not be called. `requested_name` is
    what it was looked up by: its name, or the URI of a resource.
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
        "end_template",
        "entry",
        "key",
        "manifest",
        "requested_name",
        "schemas",
        "spec",
        "start_template",
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
        # Of the ledger's entries about the last call to it.
        self.start_template: EntryTemplate | None = None
        self.end_template: EntryTemplate | None = None

    @property
    def policy_resource(self) -> CallableTarget:
        """The target as policy rules see it."""
        if self._policy_resource is None:
            entry = self.entry
            flags = entry.flags_for(self.spec, self.requested_name)
            self._policy_resource = callable_target(
                self.manifest, self.spec, tier=entry.tier, signature=entry.signature, flags=flags
            )
        return self._policy_resource

    @property
    def effects(self) -> tuple[str, ...]:
        """Its declared effects, sorted."""
        if self._effects is None:
            self._effects = tuple(sorted(self.policy_resource.effects))
        return self._effects

    @property
    def read_only(self) -> bool:
        return self.effects == READ_ONLY_EFFECTS

    @property
    def claim(self) -> Claim:
        """What it says of its own effect."""
        return claim_of(self.spec.annotations)

    @property
    def trusted_to_read(self) -> bool:
        """Whether it counts as read-only because a person takes its word for that."""
        return self.spec.name in self.entry.trust.reads

    @property
    def errors_mean_not_done(self) -> bool:
        """Whether a person settled that an error of it means that nothing was done."""
        return self.spec.name in self.entry.trust.errors

    @property
    def definition_hash(self) -> str:
        """Hash of its definition, to which an approval is bound."""
        if self._definition_hash is None:
            definition = to_builtins(self.spec) | {"input": self.schemas.input, "output": self.schemas.output}
            self._definition_hash = hash_of(definition)
        return self._definition_hash

    @property
    def title(self) -> str:
        """Display name: plugin and requested name, or one of them if both are the same."""
        return (
            self.requested_name
            if self.requested_name == self.key.plugin
            else f"{self.key.plugin} {self.requested_name}"
        )

    @property
    def input(self) -> CompiledSchema:
        """Schema of its parameters, compiled on the first call."""
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
        """Whether a result matches the output schema; `output_errors` says why it does not."""
        return self.output.is_valid(unwrap_field(self._checked_field, result))

    def output_errors(self, result: Any) -> list[Problem]:
        """List the problems of a result by the output schema."""
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
