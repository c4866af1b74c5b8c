"""Reads Paddock's own `paddock.yaml`: the superset that every other dialect can be written in.

`native_writer.py` is the other direction; its output reads back as an equal model.
"""

from __future__ import annotations

from typing import Literal

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability
from paddock.manifest.command import environment_program, program_name_problem
from paddock.manifest.dialects.mcp_callables import read_arguments
from paddock.manifest.dialects.mcp_user_config import remote_capabilities
from paddock.manifest.dialects.shu import read_identities
from paddock.manifest.effects import HARMLESS_EFFECTS
from paddock.manifest.model import (
    Behaviour,
    CallableForm,
    CallableSpec,
    CommandRuntime,
    DataAccess,
    Dialect,
    Feeds,
    Manifest,
    Observability,
    OperationAuth,
    PluginKind,
    Prompt,
    PythonRuntime,
    RemoteRuntime,
    Requires,
    Resource,
    Runtime,
    Timing,
)
from paddock.manifest.names import is_mcp_tool_name, is_tool_name
from paddock.manifest.rules.field_rules import (
    check_callable_name,
    check_methods,
    check_no_auth_fields,
    check_plugin_name,
    check_roles,
    check_version,
    read_capabilities,
    read_config_schemas,
    read_display_text,
    read_effects,
    read_env,
    read_recipients,
    read_requirements,
    read_schema,
)
from paddock.manifest.rules.knobs import read_knobs
from paddock.manifest.rules.recovery import check_atomic, check_probes, read_recovery
from paddock.manifest.rules.secrets import check_obtainable, check_operation_secrets, check_secret_names
from paddock.manifest.secret_use import SecretRecipient
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "paddock"
RUNTIME_SCHEMA = "paddock-runtime"
API_VERSION = 1


def read(fields: Fields, report: ProblemReport) -> Manifest:
    """Map a parsed paddock.yaml onto the model, reporting every broken rule."""
    dialect = _read_dialect(fields.text("dialect"))
    check_plugin_name(report, fields.at("name"), fields.text("name"), strict=dialect is Dialect.KAGED)
    check_version(report, fields.at("version"), fields.text("version"))
    if dialect is Dialect.NATIVE and "description" in fields and fields.get("description") == "":
        hint = "say in a sentence what the plugin does; people read it before they agree"
        report.warn(fields.at("description"), "is empty", hint, "no_description")
    kind = _read_kind(fields.text("kind"))
    hooks = fields.texts("hooks")
    roles = fields.texts("roles") or (("observer",) if hooks else ())
    check_roles(report, fields, roles, hooks)
    project, system = read_config_schemas(report, fields)
    check_methods(report, ((fields.at("notifications", i), text) for i, text in fields.numbered_texts("notifications")))
    requires = fields.within("requires")
    observability = fields.within("observability")
    feeds = fields.within("feeds")
    timing = fields.within("timing")
    requested = read_capabilities(report, fields, "capabilities")
    secrets = _read_secrets(fields)
    callables = _read_callables(report, fields, kind, dialect, requested)
    check_secret_names(report, fields, "operation_auth")
    if dialect is Dialect.NATIVE:
        check_operation_secrets(report, fields, callables)
        check_obtainable(report, fields.at("secrets" if "secrets" in fields else "operation_auth"), secrets, requested)
    return Manifest(
        name=PluginName(fields.text("name")),
        version=fields.text("version"),
        dialect=dialect,
        description=fields.text("description"),
        title=read_display_text(report, fields, "title"),
        author=read_display_text(report, fields, "author"),
        license=fields.text("license"),
        homepage=fields.text("homepage"),
        icon=fields.text("icon"),
        kind=kind,
        api=fields.integer("api", API_VERSION),
        trust_claim=fields.optional_text("trust_claim"),
        runtime=read_runtime(report, fields, fields.text("name")),
        start=read_start(fields),
        capabilities=requested,
        callables=callables,
        roles=roles,
        hooks=hooks,
        notifications=fields.texts("notifications"),
        config_schema=project,
        system_config_schema=system,
        knobs=read_knobs(report, fields, project, system),
        requires=Requires(
            read_requirements(report, requires, "tools"),
            requires.texts("capabilities"),
            requires.texts("context_fields"),
        ),
        allowed_actions=fields.texts("allowed_actions"),
        policy_tags=fields.texts("policy_tags"),
        observability=Observability(observability.text("log_level", "info"), observability.flag("emit_samples")),
        behaviour=_read_behaviour(report, fields.within("behaviour")),
        data_access=_read_data_access(fields.within("data_access")) if "data_access" in fields else None,
        resources=tuple(
            Resource(item.text("uri"), item.text("name"), item.text("description"), item.optional_text("mime_type"))
            for item in fields.entries("resources")
        ),
        prompts=tuple(
            Prompt(item.text("name"), item.text("description"), tuple(read_arguments(item)), item.optional_text("text"))
            for item in fields.entries("prompts")
        ),
        identities=tuple(read_identities(fields, "identities")),
        operation_auth=tuple(
            OperationAuth(
                operation,
                auth.optional_text("provider"),
                auth.optional_text("mode"),
                auth.texts("scopes"),
                auth.optional_text("subject_hint"),
                auth.text_map("secrets"),
            )
            for operation, auth in fields.named("operation_auth")
        ),
        secrets=secrets,
        secret_hosts=_read_secret_hosts(report, fields, secrets),
        feeds=Feeds(feeds.optional_text("default_op"), feeds.texts("allowed_ops")),
        origins=fields.texts("origins"),
        timing=Timing(
            timing.integer("shutdown_sec", 5),
            timing.integer("health_interval_sec", 30),
            timing.integer("hook_sec", 10),
            timing.integer("call_sec", 30),
        ),
    )


def _read_secrets(fields: Fields) -> tuple[str, ...]:
    """Return the listed secrets, then those that only an operation names: a person is shown all of them."""
    listed = fields.texts("secrets")
    named = [secret for _, auth in fields.named("operation_auth") for secret in auth.text_map("secrets")]
    listed_set = set(listed)
    return (*listed, *(secret for secret in dict.fromkeys(named) if secret not in listed_set))


def _read_secret_hosts(
    report: ProblemReport, fields: Fields, secrets: tuple[str, ...]
) -> dict[str, tuple[SecretRecipient, ...]]:
    hosts = fields.within("secret_hosts")
    declared = set(secrets)
    for name in hosts.value:
        if name not in declared:
            report.error(hosts.at(name), "is no secret of this plugin", "name it under 'secrets' too", "unknown_secret")
    return {name: read_recipients(report, hosts, name) for name in hosts.value}


def read_start(fields: Fields) -> Literal["eager", "lazy"]:
    return "lazy" if fields.text("start") == "lazy" else "eager"


def read_runtime(report: ProblemReport, fields: Fields, name: str) -> Runtime | None:
    """Read the plugin's program: a command, Python entrypoints, or the URL of a remote server."""
    runtime = fields.within("runtime")
    program_keys = [key for key in ("command", "python", "module", "url") if key in runtime]
    if fields.object("runtime") is not None and len(program_keys) != 1:
        report.error(
            runtime.path,
            f"gives {' and '.join(program_keys) if program_keys else 'no program'}",
            "give exactly one of command, python, module or url",
            "runtime",
        )
    if not program_keys:
        return None
    env = read_env(report, runtime)
    match program_keys[0]:
        case "command":
            protocol: Literal["paddock", "mcp"] = "mcp" if runtime.text("protocol") == "mcp" else "paddock"
            command = runtime.texts("command")
            program = environment_program(command)
            if program is not None and (problem := program_name_problem(program)):
                report.error(
                    runtime.at("command", 0), problem, "write e.g. 'environment:mcp-server-time'", "program_name"
                )
            return CommandRuntime(command, protocol, env, runtime.optional_text("cwd"))
        case "python":
            return PythonRuntime(runtime.text_map("python"), env)
        case "module":
            return PythonRuntime({name: runtime.text("module")}, env)
        case _:
            url = runtime.text("url")
            if isinstance(runtime.get("url"), str):
                remote_capabilities(report, runtime.at("url"), url)
            transport: Literal["streamable-http", "sse"] = (
                "sse" if runtime.text("transport") == "sse" else "streamable-http"
            )
            return RemoteRuntime(url, transport, runtime.text_map("headers"))


_CALLABLE_FORMS = (
    ("execute", CallableForm.WHOLE),
    ("tools", CallableForm.TOOL),
    ("methods", CallableForm.METHOD),
    ("actions", CallableForm.ACTION),
)


def _read_callables(
    report: ProblemReport, fields: Fields, kind: PluginKind, dialect: Dialect, capabilities: tuple[Capability, ...]
) -> tuple[CallableSpec, ...]:
    specs: list[CallableSpec] = []
    pairs: list[tuple[Fields, CallableSpec]] = []
    seen: set[str] = set()
    for key, form in _CALLABLE_FORMS:
        for index, item in enumerate(fields.items(key)):
            entry = Fields({"name": item} if isinstance(item, str) else item, fields.at(key, index))
            spec = _read_callable(report, entry, form, dialect)
            _check_callable_name(report, entry, spec, dialect)
            if form is CallableForm.ACTION and dialect is not Dialect.SHU:
                hint = "declare a tool, and what it changes among its effects"
                report.error(entry.path, "only a plugin of Shu's dialect has actions", hint, "actions")
            if spec.name and spec.name in seen:
                report.error(entry.at("name"), f"{spec.name!r} is declared twice", "keep one of them", "duplicate_name")
            if kind in (PluginKind.AGENT, PluginKind.TOOL, PluginKind.ADAPTER) and any(
                effect not in HARMLESS_EFFECTS for effect in spec.effects or ()
            ):
                report.error(
                    entry.at("effects"),
                    f"a plugin of kind {kind} has no effects",
                    "only operators act",
                    "kind_boundary",
                )
            seen.add(spec.name)
            specs.append(spec)
            pairs.append((entry, spec))
    check_probes(report, pairs)
    check_atomic(report, pairs, capabilities)
    return tuple(specs)


def _read_callable(report: ProblemReport, fields: Fields, form: CallableForm, dialect: Dialect) -> CallableSpec:
    input_schema = read_schema(report, fields, "input_schema", files=True)
    if dialect in (Dialect.NATIVE, Dialect.SHU):  # in other dialects such a parameter may mean something else
        check_no_auth_fields(report, fields.at("input_schema"), input_schema)
    return CallableSpec(
        name=fields.text("name"),
        form=form,
        description=fields.text("description"),
        title=read_display_text(report, fields, "title"),
        input_schema=input_schema,
        output_schema=read_schema(report, fields, "output_schema", files=True),
        effects=read_effects(report, fields),
        policy_tags=fields.texts("policy_tags"),
        required_scopes=fields.texts("required_scopes"),
        requires_approval=fields.flag("requires_approval"),
        timeout_sec=fields.optional_integer("timeout_sec"),
        annotations=fields.object("annotations") or {},
        of=fields.text("of"),
        recovery=read_recovery(fields),
        probe=fields.text("probe"),
    )


def _check_callable_name(report: ProblemReport, fields: Fields, spec: CallableSpec, dialect: Dialect) -> None:
    if not spec.name:
        return  # the schema reports that it is missing
    if spec.form in (CallableForm.WHOLE, CallableForm.ACTION):
        check_callable_name(report, fields.at("name"), spec.name)
    elif spec.form is CallableForm.METHOD:
        check_methods(report, [(fields.at("name") if "name" in fields else fields.path, spec.name)])
    else:
        # Foreign servers name their tools freely; native ones follow one rule.
        is_valid = is_mcp_tool_name if dialect in (Dialect.MCP, Dialect.OSQR) else is_tool_name
        if not is_valid(spec.name):
            report.error(
                fields.at("name"),
                f"{spec.name[:80]!r} is not a tool name",
                "one lowercase segment: letters, digits and '_'",
                "tool_name",
            )


def _read_behaviour(report: ProblemReport, fields: Fields) -> Behaviour | None:
    if not fields.value:
        return None
    topics = fields.texts("trigger_topics")
    if fields.flag("can_initiate") and not topics:
        report.warn(
            fields.at("trigger_topics"),
            "can_initiate is true but no trigger_topics are defined",
            "list topics",
            "no_topics",
        )
    default = Behaviour()
    return Behaviour(
        style=fields.text("style"),
        intensity=fields.text("intensity", default.intensity),
        honesty_override=fields.flag("honesty_override"),
        honesty_mode=fields.text("honesty_mode"),
        direct_feedback_kept=fields.flag("direct_feedback_kept", True),
        can_initiate=fields.flag("can_initiate"),
        trigger_topics=topics,
        confidence_threshold=fields.number("confidence_threshold", default.confidence_threshold),
        synonyms={topic: fields.within("synonyms").texts(topic) for topic in fields.within("synonyms").value},
        response_length=fields.optional_text("response_length"),
        emoji_usage=fields.optional_text("emoji_usage"),
    )


def _read_data_access(fields: Fields) -> DataAccess:
    return DataAccess(
        fields.flag("vault_read"),
        fields.flag("vault_write"),
        fields.text("memory", "none"),
        fields.texts("external_apis"),
    )


def _read_dialect(text: str) -> Dialect:
    return Dialect(text) if text in set(Dialect) else Dialect.NATIVE


def _read_kind(text: str) -> PluginKind:
    return PluginKind(text) if text in set(PluginKind) else PluginKind.PLUGIN
