"""kaged's `kaged-plugin.yaml`: a program that speaks JSON-RPC on stdio, with hooks, tools, methods and knobs."""

from __future__ import annotations

from paddock.core.ids import PluginName
from paddock.manifest.model import CallableForm, CallableSpec, CommandRuntime, Dialect, Manifest, Timing
from paddock.manifest.names import is_tool_name
from paddock.manifest.rules.field_rules import (
    check_methods,
    check_plugin_name,
    check_roles,
    check_version,
    read_capabilities,
    read_config_schemas,
    read_display_text,
    read_effects,
    read_env,
    read_schema,
)
from paddock.manifest.rules.knobs import read_knobs
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "kaged"


def read(fields: Fields, report: ProblemReport) -> Manifest:
    """Map a parsed kaged manifest onto the model, reporting every broken rule."""
    name = fields.text("name")
    check_plugin_name(report, fields.at("name"), name, strict=True)
    check_version(report, fields.at("version"), fields.text("version"))
    hooks = fields.texts("hooks")
    roles = fields.texts("roles") or (("observer",) if hooks else ())
    check_roles(report, fields, roles, hooks)
    project, system = read_config_schemas(report, fields)
    check_methods(report, ((fields.at("notifications", i), text) for i, text in fields.numbered_texts("notifications")))
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.KAGED,
        description=fields.text("description").strip(),
        author=read_display_text(report, fields, "author"),
        license=fields.text("license"),
        homepage=fields.text("homepage"),
        api=fields.integer("kaged_api", 1),
        runtime=CommandRuntime(fields.texts("command"), env=read_env(report, fields)),
        capabilities=read_capabilities(report, fields, "capabilities"),
        callables=(*_tools(report, fields), *_methods(report, fields)),
        roles=roles,
        hooks=hooks,
        notifications=fields.texts("notifications"),
        config_schema=project,
        system_config_schema=system,
        knobs=read_knobs(report, fields, project, system),
        timing=Timing(
            shutdown=fields.integer("shutdown_timeout_sec", 5),
            health_interval=fields.integer("health_interval_sec", 30),
            hook=fields.integer("hook_timeout_sec", 10),
        ),
    )


def _tools(report: ProblemReport, fields: Fields) -> list[CallableSpec]:
    specs: list[CallableSpec] = []
    seen: set[str] = set()
    for tool in fields.entries("tools"):
        name = tool.text("name")
        if name and not is_tool_name(name):
            report.error(
                tool.at("name"),
                f"{name[:80]!r} is not a tool name",
                "one lowercase segment: letters, digits and '_'",
                "tool_name",
            )
        elif name and name in seen:
            report.error(tool.at("name"), f"{name!r} is declared twice", "keep one of them", "duplicate_name")
        seen.add(name)
        specs.append(
            CallableSpec(
                name,
                CallableForm.TOOL,
                tool.text("description"),
                input_schema=read_schema(report, tool, "parameters_schema"),
                output_schema=read_schema(report, tool, "output_schema"),
                effects=read_effects(report, tool),
                timeout_sec=tool.optional_integer("timeout_sec"),
            )
        )
    return specs


def _methods(report: ProblemReport, fields: Fields) -> list[CallableSpec]:
    """Read the methods: names, or mappings with schemas where the author wants input and output checked."""
    specs: list[CallableSpec] = []
    for index, item in enumerate(fields.items("methods")):
        if isinstance(item, str):
            specs.append(CallableSpec(item, CallableForm.METHOD))
            continue
        method = Fields(item, fields.at("methods", index))
        specs.append(
            CallableSpec(
                method.text("name"),
                CallableForm.METHOD,
                method.text("description"),
                input_schema=read_schema(report, method, "params_schema"),
                output_schema=read_schema(report, method, "result_schema"),
                effects=read_effects(report, method),
                timeout_sec=method.optional_integer("timeout_sec"),
            )
        )
    check_methods(report, ((fields.at("methods", index), method.name) for index, method in enumerate(specs)))
    return specs
