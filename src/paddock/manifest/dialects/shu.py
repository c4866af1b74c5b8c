"""Reads Shu's manifest: Python classes as entrypoints, host services, identities and feed-safe operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paddock.core.ids import PluginName
from paddock.manifest import capability as capabilities
from paddock.manifest.capability import Capability, HostService, InvalidCapability
from paddock.manifest.dialects.shu_source import ShuSources, read_actions
from paddock.manifest.effects import Effect
from paddock.manifest.model import (
    CallableForm,
    CallableSpec,
    Dialect,
    Feeds,
    IdentityRequirement,
    Manifest,
    OperationAuth,
    PythonRuntime,
)
from paddock.manifest.package_files import PackageFiles
from paddock.manifest.rules.field_rules import (
    check_callable_name,
    check_no_auth_fields,
    check_plugin_name,
    check_version,
    read_display_text,
    read_recipients,
    read_schema,
)
from paddock.manifest.rules.secrets import check_obtainable, check_secret_names
from paddock.manifest.secret_use import SecretRecipient
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "shu"


def read(fields: Fields, report: ProblemReport, files: PackageFiles) -> Manifest:
    """Map a parsed Shu manifest onto the model, reporting every broken rule."""
    name = fields.text("name")
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    entrypoints = fields.text_map("entrypoints")
    for callable_name in entrypoints:
        check_callable_name(report, fields.at("entrypoints", callable_name), callable_name)
    default_op = fields.optional_text("default_feed_op")
    allowed_ops = fields.texts("allowed_feed_ops")
    if default_op is not None and allowed_ops and default_op not in allowed_ops:
        report.error(
            fields.at("default_feed_op"),
            f"{default_op!r} is not in allowed_feed_ops",
            "add it there, or choose one of them",
            "feed_op",
        )
    input_schema = read_schema(report, fields, "params_schema")
    check_no_auth_fields(report, fields.at("params_schema"), input_schema)
    output_schema = read_schema(report, fields, "output_schema")
    sources = ShuSources(report, fields, files)
    requested, secrets = _capabilities(report, fields), _secrets(fields)
    check_secret_names(report, fields, "op_auth")
    check_obtainable(report, fields.at("secrets" if "secrets" in fields else "op_auth"), secrets, requested)
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.SHU,
        description=fields.text("description"),
        title=read_display_text(report, fields, "display_name"),
        author=read_display_text(report, fields, "author"),
        license=fields.text("license"),
        homepage=fields.text("homepage"),
        runtime=PythonRuntime(entrypoints),
        capabilities=requested,
        callables=(
            *(
                CallableSpec(
                    callable_name,
                    CallableForm.WHOLE,
                    fields.text("description"),
                    input_schema=sources.schema(callable_name, target) if input_schema is None else input_schema,
                    output_schema=output_schema,
                    effects=(Effect.READ_ONLY,),  # only actions may write
                )
                for callable_name, target in entrypoints.items()
            ),
            *_actions(report, fields, entrypoints, sources),
        ),
        policy_tags=fields.texts("policy_tags"),
        identities=tuple(read_identities(fields, "required_identities")),
        operation_auth=tuple(_operation_auth(fields)),
        secrets=secrets,
        secret_hosts=_secret_hosts(report, fields),
        feeds=Feeds(default_op, allowed_ops),
        origins=fields.texts("origins"),
    )


def _actions(
    report: ProblemReport, fields: Fields, entrypoints: Mapping[str, str], sources: ShuSources
) -> Iterator[CallableSpec]:
    """Yield the plugin's actions: from the manifest if it lists them, else from its classes, each class once."""
    if "actions" in fields:
        listed = [(next(iter(entrypoints), ""), list(fields.entries("actions")))]
    else:
        name_by_target: dict[str, str] = {}
        for name, target in entrypoints.items():
            name_by_target.setdefault(target, name)
        listed = [(name, sources.actions(name, target)) for target, name in name_by_target.items()]
    used_names = set(entrypoints)
    for name, actions in listed:
        for action in read_actions(report, name, actions):
            if action.name in used_names:
                hint = "give one of them another name"
                report.error(fields.at("entrypoints", name), f"{action.name!r} is there twice", hint, "duplicate_name")
            used_names.add(action.name)
            yield action


def _capabilities(report: ProblemReport, fields: Fields) -> tuple[Capability, ...]:
    services: list[Capability] = []
    for index, text in fields.numbered_texts("capabilities"):
        try:
            services.append(capabilities.parse_host_service(text))
        except InvalidCapability as error:
            report.error(fields.at("capabilities", index), error.message, error.hint, "capability")
    if HostService("kb") in services:
        services.append(HostService("cursor"))  # in Shu, cursors come with the knowledge base
    return tuple(dict.fromkeys(services))


def read_identities(fields: Fields, key: str) -> list[IdentityRequirement]:
    return [
        IdentityRequirement(
            item.text("provider"), item.text("mode", "user"), item.texts("scopes"), item.flag("optional")
        )
        for item in fields.entries(key)
    ]


def _operation_auth(fields: Fields) -> list[OperationAuth]:
    return [
        OperationAuth(
            operation,
            auth.optional_text("provider"),
            auth.optional_text("mode"),
            auth.texts("scopes"),
            auth.optional_text("subject_hint"),
            {secret: scope.text("allowed_scope", "system_or_user") for secret, scope in auth.named("secrets")},
        )
        for operation, auth in fields.named("op_auth")
    ]


def _secret_hosts(report: ProblemReport, fields: Fields) -> dict[str, tuple[SecretRecipient, ...]]:
    """Return the recipients of each secret that an operation binds to hosts."""
    recipients: dict[str, tuple[SecretRecipient, ...]] = {}
    for _, auth in fields.named("op_auth"):
        for secret, declaration in auth.named("secrets"):
            if "allowed_hosts" in declaration:
                recipients[secret] = (
                    *recipients.get(secret, ()),
                    *read_recipients(report, declaration, "allowed_hosts"),
                )
    return recipients


def _secrets(fields: Fields) -> tuple[str, ...]:
    """Return every secret named anywhere, so that consent shows them all and undeclared ones are refused."""
    named = [secret for _, auth in fields.named("op_auth") for secret, _ in auth.named("secrets")]
    return tuple(dict.fromkeys([*fields.texts("secrets"), *named]))
