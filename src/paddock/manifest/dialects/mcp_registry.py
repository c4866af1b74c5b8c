"""The MCP registry's server.json: packages to be launched, or remote servers to be connected to."""

from __future__ import annotations

import re
from typing import Any

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability
from paddock.manifest.dialects.mcp_settings import Settings, reach
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, RemoteRuntime
from paddock.manifest.names import slug
from paddock.manifest.report import Fields, Report
from paddock.manifest.rules import (
    check_env,
    check_own_schema,
    check_plugin_name,
    check_slug,
    check_version,
    shown_text,
)

SCHEMA = "mcp-server"
_LAUNCHERS = {"npm": ("npx", "-y"), "pypi": ("uvx",), "oci": ("docker", "run", "-i", "--rm"), "nuget": ("dnx",)}
_VERSION_MARK = {"pypi": "==", "oci": ":"}
_TEMPLATE = re.compile(r"\{([A-Za-z0-9_.-]{1,100})\}")


def read(fields: Fields, report: Report) -> Manifest:
    """A registry description: the first package that can be launched, or else the first remote."""
    full = shown_text(report, fields, "name")
    name = slug(full.replace("/", "-"))
    check_slug(report, fields.at("name"), full, name)
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    settings = Settings()
    runtime: CommandRuntime | RemoteRuntime | None = None
    capabilities: tuple[Capability, ...] = ()
    launchable = [package for package in fields.entries("packages") if _launchable(package)]
    remotes = list(fields.entries("remotes"))
    if launchable:
        runtime = _launched(report, launchable[0], settings)
    elif remotes:
        runtime = _connected(remotes[0], settings)
        capabilities = reach(report, remotes[0].at("url"), remotes[0].text("url"))
    else:
        report.warn(
            fields.at("packages"),
            "names no package or remote that can be started",
            f"packages of type {', '.join(sorted(_LAUNCHERS))} on stdio, or a remote, can be",
            "no_package",
        )
    check_own_schema(report, fields.at("packages"), settings.schema)
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.MCP,
        description=fields.text("description"),
        title=shown_text(report, fields, "title") or full,
        homepage=fields.text("websiteUrl") or fields.within("repository").text("url"),
        runtime=runtime,
        start="lazy",
        capabilities=capabilities,
        system_config_schema=settings.schema,
    )


def _launchable(package: Fields) -> bool:
    stdio = package.within("transport").text("type", "stdio") == "stdio"
    return package.text("registryType") in _LAUNCHERS and bool(package.text("identifier")) and stdio


def _launched(report: Report, package: Fields, settings: Settings) -> CommandRuntime:
    kind = package.text("registryType")
    version = package.text("version")
    identifier = package.text("identifier")
    pinned = f"{identifier}{_VERSION_MARK.get(kind, '@')}{version}" if version else identifier
    launcher = (package.text("runtimeHint"),) if package.text("runtimeHint") else _LAUNCHERS[kind]
    command = (
        *launcher,
        *_arguments(package, "runtimeArguments", settings),
        pinned,
        *_arguments(package, "packageArguments", settings),
    )
    named = [item for item in package.entries("environmentVariables") if item.text("name")]
    env = {item.text("name"): _value(item, settings, "env", item.text("name")) for item in named}
    check_env(report, Fields({"environmentVariables": env}, package.path), "environmentVariables")
    return CommandRuntime(command, "mcp", env)


def _connected(remote: Fields, settings: Settings) -> RemoteRuntime:
    headers = {
        item.text("name"): _value(item, settings, "header", item.text("name")) for item in remote.entries("headers")
    }
    transport = "sse" if remote.text("type") == "sse" else "streamable-http"
    return RemoteRuntime(_filled(remote, remote.text("url"), settings), transport, headers)


def _arguments(package: Fields, key: str, settings: Settings) -> list[str]:
    found: list[str] = []
    for index, argument in enumerate(package.entries(key)):
        if argument.text("type") == "named":
            found.append(argument.text("name"))
            given = any(argument.text(one) for one in ("value", "default", "valueHint"))
            if not (given or argument.flag("isRequired")):
                continue  # a switch
        label = argument.text("valueHint") or argument.text("name").lstrip("-") or "argument"
        found.append(_value(argument, settings, f"{key}{index}", label))
    return found


def _value(item: Fields, settings: Settings, origin: str, label: str) -> str:
    """A value the description gives, or a reference to one that a person will give."""
    if item.text("value"):
        return _filled(item, item.text("value"), settings)
    return settings.field(origin, label, _schema_of(item), required=item.flag("isRequired"))


def _filled(item: Fields, text: str, settings: Settings) -> str:
    """A text with our references in place of the `{variables}` that it declares."""
    variables = dict(item.named("variables"))

    def reference(found: re.Match[str]) -> str:
        variable = variables.get(found[1])
        if variable is None:
            return found[0]
        if variable.text("value"):
            return variable.text("value")
        return settings.field("variable", found[1], _schema_of(variable), required=variable.flag("isRequired"))

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
