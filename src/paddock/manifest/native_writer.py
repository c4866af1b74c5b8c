"""Writes any manifest in the native dialect: as plain values, and as the YAML of `plugin check --show`.

Only values that differ from a default are written, so that a person can read the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.manifest.model import (
    Behaviour,
    CallableForm,
    CallableSpec,
    CommandRuntime,
    Dialect,
    IdentityRequirement,
    Manifest,
    OperationAuth,
    PluginKind,
    Prompt,
    PythonRuntime,
    Runtime,
    Schema,
    SchemaFile,
    Timing,
)
from paddock.manifest.syntax.yaml_document import plain_scalar


def to_document(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as the values of a paddock.yaml."""
    values: dict[str, Any] = {
        "paddock": 1,
        "name": manifest.name,
        "version": manifest.version,
        "title": manifest.title,
        "description": manifest.description,
        "author": manifest.author,
        "license": manifest.license,
        "homepage": manifest.homepage,
        "icon": manifest.icon,
        "dialect": manifest.dialect.value if manifest.dialect is not Dialect.NATIVE else "",
        "kind": manifest.kind.value if manifest.kind is not PluginKind.PLUGIN else "",
        "trust_claim": manifest.trust_claim,
        "runtime": _runtime(manifest.runtime) if manifest.runtime else None,
        "start": manifest.start if manifest.start != "eager" else "",
        "capabilities": [str(capability) for capability in manifest.capabilities],
        "execute": [_callable(one) for one in manifest.callables if one.form is CallableForm.WHOLE],
        "tools": [_callable(one) for one in manifest.callables if one.form is CallableForm.TOOL],
        "actions": [_callable(one) for one in manifest.callables if one.form is CallableForm.ACTION],
        "methods": [_callable(one) for one in manifest.callables if one.form is CallableForm.METHOD],
        "allowed_actions": list(manifest.allowed_actions),
        "roles": list(manifest.roles),
        "hooks": list(manifest.hooks),
        "notifications": list(manifest.notifications),
        "config_schema": manifest.config_schema,
        "system_config_schema": manifest.system_config_schema,
        "knobs": {
            knob.name: _without_empty(
                {"type": knob.type, "label": knob.label, "description": knob.description, "binds_to": knob.binds_to}
            )
            | dict(knob.options)
            for knob in manifest.knobs
        },
        "requires": _without_empty(
            {
                "tools": [
                    tool.name if tool.constraint == "*" else f"{tool.name}@{tool.constraint}"
                    for tool in manifest.requires.tools
                ],
                "capabilities": list(manifest.requires.capabilities),
                "context_fields": list(manifest.requires.context_fields),
            }
        ),
        "policy_tags": list(manifest.policy_tags),
        "observability": _without_empty(
            {
                "log_level": manifest.observability.log_level if manifest.observability.log_level != "info" else "",
                "emit_samples": manifest.observability.emit_samples or None,
            }
        ),
        "behaviour": _behaviour(manifest.behaviour) if manifest.behaviour else None,
        "resources": [
            _without_empty(
                {"uri": item.uri, "name": item.name, "description": item.description, "mime_type": item.mime_type}
            )
            for item in manifest.resources
        ],
        "prompts": [_prompt(prompt) for prompt in manifest.prompts],
        "identities": [_identity(identity) for identity in manifest.identities],
        "operation_auth": {auth.operation: _operation_auth(auth) for auth in manifest.operation_auth},
        "secrets": list(manifest.secrets),
        "secret_hosts": {name: list(map(str, places)) for name, places in manifest.secret_hosts.items()},
        "feeds": _without_empty(
            {"default_op": manifest.feeds.default_op, "allowed_ops": list(manifest.feeds.allowed_ops)}
        ),
        "origins": list(manifest.origins),
        "timing": _timing(manifest.timing),
    }
    # A description is required, and an empty schema or data access has a meaning: these stay even when empty.
    kept_if_empty = ("description", "config_schema", "system_config_schema")
    document = {
        key: value
        for key, value in values.items()
        if value not in (None, "", [], {}) or (key in kept_if_empty and value is not None)
    }
    if manifest.data_access is not None:
        access = manifest.data_access
        document["data_access"] = {
            "vault_read": access.vault_read,
            "vault_write": access.vault_write,
            "memory": access.memory,
            "external_apis": list(access.external_apis),
        }
    return document


def to_yaml(manifest: Manifest) -> str:
    """Return the manifest as the text of a paddock.yaml."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes scalars that our reader would not read as text; writes no aliases."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the dumper's own shape
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        lines = value.split("\n")
        needs_quotes = not isinstance(plain_scalar(value), str) or any(not line.isprintable() for line in lines)
        readable = len(lines) > 1 and all(line == line.strip() for line in lines)
        style = '"' if needs_quotes or value != value.strip(" ") else "|" if readable else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)  # pyright: ignore[reportUnknownMemberType]

    Dumper.add_representer(str, text)  # pyright: ignore[reportUnknownMemberType]
    return yaml.dump(to_document(manifest), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)  # pyright: ignore[reportUnknownMemberType]


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def _runtime(runtime: Runtime) -> dict[str, Any]:
    match runtime:
        case CommandRuntime():
            protocol = runtime.protocol if runtime.protocol != "paddock" else ""
            return _without_empty(
                {"command": list(runtime.command), "protocol": protocol, "cwd": runtime.cwd, "env": dict(runtime.env)}
            )
        case PythonRuntime():
            return _without_empty({"python": dict(runtime.entrypoints), "env": dict(runtime.env)})
        case _:
            transport = runtime.transport if runtime.transport != "streamable-http" else ""
            return _without_empty({"url": runtime.url, "transport": transport, "headers": dict(runtime.headers)})


def _schema(schema: Schema | None) -> Any:
    return schema.path if isinstance(schema, SchemaFile) else schema


def _callable(spec: CallableSpec) -> dict[str, Any]:
    document = _without_empty({"name": spec.name, "title": spec.title, "description": spec.description})
    for key, schema in (("input_schema", spec.input_schema), ("output_schema", spec.output_schema)):
        if schema is not None:
            document[key] = _schema(schema)
    if spec.effects is not None:
        document["effects"] = [effect.value for effect in spec.effects]
    return document | _without_empty(
        {
            "policy_tags": list(spec.policy_tags),
            "required_scopes": list(spec.required_scopes),
            "requires_approval": spec.requires_approval or None,
            "timeout_sec": spec.timeout_sec,
            "annotations": spec.annotations,
            "of": spec.of,
            "recovery": spec.recovery if spec.recovery != "none" else None,
            "probe": spec.probe,
        }
    )


def _behaviour(behaviour: Behaviour) -> dict[str, Any]:
    return {
        "intensity": behaviour.intensity,
        "can_initiate": behaviour.can_initiate,
        "confidence_threshold": behaviour.confidence_threshold,
        "honesty_override": behaviour.honesty_override,
        "direct_feedback_kept": behaviour.direct_feedback_kept,
    } | _without_empty(
        {
            "style": behaviour.style,
            "honesty_mode": behaviour.honesty_mode,
            "trigger_topics": list(behaviour.trigger_topics),
            "synonyms": {topic: list(words) for topic, words in behaviour.synonyms.items()},
            "response_length": behaviour.response_length,
            "emoji_usage": behaviour.emoji_usage,
        }
    )


def _prompt(prompt: Prompt) -> dict[str, Any]:
    arguments = [
        _without_empty(
            {"name": argument.name, "description": argument.description, "required": argument.required or None}
        )
        for argument in prompt.arguments
    ]
    document = _without_empty({"name": prompt.name, "description": prompt.description, "arguments": arguments})
    return document if prompt.text is None else document | {"text": prompt.text}


def _identity(identity: IdentityRequirement) -> dict[str, Any]:
    return _without_empty(
        {
            "provider": identity.provider,
            "mode": identity.mode,
            "scopes": list(identity.scopes),
            "optional": identity.optional or None,
        }
    )


def _operation_auth(auth: OperationAuth) -> dict[str, Any]:
    return _without_empty(
        {
            "provider": auth.provider,
            "mode": auth.mode,
            "scopes": list(auth.scopes),
            "subject_hint": auth.subject_hint,
            "secrets": dict(auth.secrets),
        }
    )


def _timing(timing: Timing) -> dict[str, Any]:
    default = Timing()
    pairs = [
        ("shutdown_sec", timing.shutdown, default.shutdown),
        ("health_interval_sec", timing.health_interval, default.health_interval),
        ("hook_sec", timing.hook, default.hook),
        ("call_sec", timing.call, default.call),
    ]
    return {key: value for key, value, default_value in pairs if value != default_value}
