"""Reads the MCP registry's server.json: packages to launch, or remote servers to connect to."""

from __future__ import annotations

import re
from typing import Any

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability
from paddock.manifest.dialects.mcp_user_config import ConfigFieldBuilder, remote_capabilities
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, RemoteRuntime
from paddock.manifest.names import slug
from paddock.manifest.rules.field_rules import (
    check_built_schema,
    check_plugin_name,
    check_slug,
    check_version,
    read_display_text,
    read_env,
)
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "mcp-server"
_LAUNCHERS = {"npm": ("npx", "-y"), "pypi": ("uvx",), "oci": ("docker", "run", "-i", "--rm"), "nuget": ("dnx",)}
_VERSION_SEPARATOR = {"pypi": "==", "oci": ":"}
_TEMPLATE = re.compile(r"\{([A-Za-z0-9_.-]{1,100})\}")


def read(fields: Fields, report: ProblemReport) -> Manifest:
    """Read a registry description: the first package that can be launched, or else the first remote."""
    full_name = read_display_text(report, fields, "name")
    name = slug(full_name.replace("/", "-"))
    check_slug(report, fields.at("name"), full_name, name)
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    settings = ConfigFieldBuilder()
    runtime: CommandRuntime | RemoteRuntime | None = None
    capabilities: tuple[Capability, ...] = ()
    launchable = [package for package in fields.entries("packages") if _is_launchable(package)]
    remotes = list(fields.entries("remotes"))
    if launchable:
        runtime = _package_runtime(report, launchable[0], settings)
    elif remotes:
        runtime = _remote_runtime(remotes[0], settings)
        capabilities = remote_capabilities(report, remotes[0].at("url"), remotes[0].text("url"))
    else:
        report.warn(
            fields.at("packages"),
            "names no package or remote that can be started",
            f"packages of type {', '.join(sorted(_LAUNCHERS))} on stdio, or a remote, can be",
            "no_package",
        )
    check_built_schema(report, fields.at("packages"), settings.schema)
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.MCP,
        description=fields.text("description"),
        title=read_display_text(report, fields, "title") or full_name,
        homepage=fields.text("websiteUrl") or fields.within("repository").text("url"),
        runtime=runtime,
        start="lazy",
        capabilities=capabilities,
        system_config_schema=settings.schema,
    )


def _is_launchable(package: Fields) -> bool:
    stdio = package.within("transport").text("type", "stdio") == "stdio"
    return package.text("registryType") in _LAUNCHERS and bool(package.text("identifier")) and stdio


def _package_runtime(report: ProblemReport, package: Fields, settings: ConfigFieldBuilder) -> CommandRuntime:
    kind = package.text("registryType")
    version = package.text("version")
    identifier = package.text("identifier")
    pinned = f"{identifier}{_VERSION_SEPARATOR.get(kind, '@')}{version}" if version else identifier
    launcher = (package.text("runtimeHint"),) if package.text("runtimeHint") else _LAUNCHERS[kind]
    command = (
        *launcher,
        *_arguments(package, "runtimeArguments", settings),
        pinned,
        *_arguments(package, "packageArguments", settings),
    )
    named = [item for item in package.entries("environmentVariables") if item.text("name")]
    env = {item.text("name"): _read_value(item, settings, "env", item.text("name")) for item in named}
    read_env(report, Fields({"environmentVariables": env}, package.path), "environmentVariables")
    return CommandRuntime(command, "mcp", env)


def _remote_runtime(remote: Fields, settings: ConfigFieldBuilder) -> RemoteRuntime:
    headers = {
        item.text("name"): _read_value(item, settings, "header", item.text("name"))
        for item in remote.entries("headers")
    }
    transport = "sse" if remote.text("type") == "sse" else "streamable-http"
    return RemoteRuntime(_fill_variables(remote, remote.text("url"), settings), transport, headers)


def _arguments(package: Fields, key: str, settings: ConfigFieldBuilder) -> list[str]:
    arguments: list[str] = []
    for index, argument in enumerate(package.entries(key)):
        if argument.text("type") == "named":
            arguments.append(argument.text("name"))
            has_value = any(argument.text(one) for one in ("value", "default", "valueHint"))
            if not (has_value or argument.flag("isRequired")):
                continue  # a switch
        label = argument.text("valueHint") or argument.text("name").lstrip("-") or "argument"
        arguments.append(_read_value(argument, settings, f"{key}{index}", label))
    return arguments


def _read_value(item: Fields, settings: ConfigFieldBuilder, origin: str, label: str) -> str:
    """Return the value from the description, or a reference to one that a person will supply."""
    if item.text("value"):
        return _fill_variables(item, item.text("value"), settings)
    return settings.add_field(origin, label, _schema_of(item), required=item.flag("isRequired"))


def _fill_variables(item: Fields, text: str, settings: ConfigFieldBuilder) -> str:
    """Replace the declared `{variables}` of a text by our references."""
    variables = dict(item.named("variables"))

    def reference(match: re.Match[str]) -> str:
        variable = variables.get(match[1])
        if variable is None:
            return match[0]
        if variable.text("value"):
            return variable.text("value")
        return settings.add_field("variable", match[1], _schema_of(variable), required=variable.flag("isRequired"))

    return _TEMPLATE.sub(reference, text)


def _schema_of(item: Fields) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if item.text("description"):
        schema["description"] = item.text("description")
    if item.flag("isSecret"):
        schema["x-secret"] = True
    if item.text("default"):
        schema["default"] = item.text("default")
    if item.texts("choices"):
        schema["enum"] = list(dict.fromkeys(item.texts("choices")))
    return schema
