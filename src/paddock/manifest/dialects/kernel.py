"""The Kernel's universal manifest: one agent, operator, tool or adapter, with schemas kept as files."""

from __future__ import annotations

from paddock.core.ids import PluginName
from paddock.manifest.effects import HARMLESS_EFFECTS, Effect
from paddock.manifest.model import CallableForm, CallableSpec, Dialect, Manifest, Observability, PluginKind, Requires
from paddock.manifest.rules.field_rules import (
    check_plugin_name,
    check_version,
    read_display_text,
    read_effects,
    read_requirements,
    read_schema,
)
from paddock.manifest.rules.recovery import read_recovery
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "kernel"


def read(fields: Fields, report: ProblemReport) -> Manifest:
    """Map a parsed Kernel manifest onto the model, reporting every broken rule."""
    name = fields.text("name")
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    # An unknown kind, which the schema reports, is treated as an operator: the kind that may have effects.
    kind = (
        PluginKind(fields.text("type")) if fields.text("type") in ("agent", "tool", "adapter") else PluginKind.OPERATOR
    )
    schemas = fields.within("schemas")
    requires = fields.within("requires")
    observability = fields.within("observability")
    whole = CallableSpec(
        name,
        CallableForm.WHOLE,
        fields.text("description"),
        input_schema=read_schema(report, schemas, "input", files=True),
        output_schema=read_schema(report, schemas, "output", files=True),
        effects=read_kind_effects(report, fields, kind),
        required_scopes=fields.texts("scopes"),
        timeout_sec=fields.optional_integer("timeout_sec"),
        recovery=read_recovery(fields),
    )
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.KERNEL,
        description=fields.text("description"),
        author=read_display_text(report, fields, "owner"),
        kind=kind,
        callables=(whole,),
        requires=Requires(
            read_requirements(report, requires, "tools"),
            requires.texts("capabilities"),
            requires.texts("context_fields"),
        ),
        allowed_actions=fields.texts("allowed_actions"),
        policy_tags=fields.texts("policy_tags"),
        observability=Observability(observability.text("log_level", "info"), observability.flag("emit_samples")),
    )


def read_kind_effects(report: ProblemReport, fields: Fields, kind: PluginKind) -> tuple[Effect, ...]:
    """Read the effects by kind: only operators have effects, and one that declares none may have none."""
    effects = read_effects(report, fields)
    if kind is PluginKind.OPERATOR:
        if effects is None:
            report.warn(
                fields.at("effects"),
                "this operator declares no effects, so it will be allowed none",
                "list what it does, e.g. effects: [db_write]; an operator that only answers writes []",
                "effects_missing",
            )
        return effects or (Effect.READ_ONLY,)
    for effect in effects or ():
        if effect not in HARMLESS_EFFECTS:
            report.error(
                fields.at("effects"),
                f"{_with_article(kind)} may not have the effect {effect.value!r}",
                "only operators act; make it an operator",
                "kind_boundary",
            )
    return (Effect.READ_ONLY,)


def _with_article(kind: PluginKind) -> str:
    return f"an {kind}" if kind.value[0] in "aeiou" else f"a {kind}"
