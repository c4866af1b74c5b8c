"""MCP servers from four kinds of file: bundles (.mcpb, .dxt), mcpServers JSON, VS Code's mcp.json and server.json.

Values that a person types in (API keys above all) never become part of a manifest: each turns into a field of the
system-side config and a `${user_config.NAME}` reference, and what the file had for it is handed back separately.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability, Network, NoNetwork
from paddock.manifest.dialects.mcp_offers import read_prompts, read_tools
from paddock.manifest.model import CommandRuntime, Dialect, JsonObject, Manifest, RemoteRuntime
from paddock.manifest.names import slug
from paddock.manifest.report import Fields, Report
from paddock.manifest.rules import check_plugin_name, check_version

_INPUT = re.compile(r"\$\{input:([^}]{1,200})\}")
_ENVIRONMENT = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_USER_CONFIG_TYPES = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "directory": "string",
    "file": "string",
}
_LAUNCHERS = {"npm": ("npx", "-y"), "pypi": ("uvx",), "oci": ("docker", "run", "-i", "--rm"), "nuget": ("dnx",)}


@dataclass(frozen=True, slots=True)
class Imported:
    """One server of a configuration file, with the values that the file held for its configuration."""

    manifest: Manifest
    values: JsonObject = field(default_factory=dict[str, Any])


class _Config:
    """Collects the fields that a server's own configuration will have, and the values already known for them."""

    def __init__(self) -> None:
        self.properties: dict[str, dict[str, Any]] = {}
        self.required: list[str] = []
        self.values: dict[str, Any] = {}

    def field(self, name: str, schema: dict[str, Any], *, required: bool = False, value: Any = None) -> str:
        """Declare a field and return the reference that stands for it in commands, env and headers."""
        self.properties.setdefault(name, schema)
        if required and name not in self.required:
            self.required.append(name)
        if value is not None:
            self.values[name] = value
        return f"${{user_config.{name}}}"

    @property
    def schema(self) -> JsonObject | None:
        if not self.properties:
            return None
        schema: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        if self.required:
            schema["required"] = list(self.required)
        return schema


# --- bundles --------------------------------------------------------------------------------------------------------


def read_bundle(fields: Fields, report: Report) -> Manifest:
    """An MCP bundle's manifest.json, versions 0.1 to 0.4."""
    display = fields.text("display_name") or fields.text("name")
    name = fields.text("name") if re.match(r"^[a-z][a-z0-9-]*$", fields.text("name")) else slug(fields.text("name"))
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    config = _Config()
    for key, item in fields.named("user_config"):
        config.field(key, _user_config_schema(item), required=item.flag("required"))
    server = fields.within("server").within("mcp_config")
    command = (server.text("command"), *server.texts("args"))
    for place, used in [("args", command), ("env", tuple(server.text_map("env").values()))]:
        for reference in re.findall(r"\$\{user_config\.([^}]+)\}", " ".join(used)):
            if reference not in config.properties:
                report.error(
                    server.at(place),
                    f"uses ${{user_config.{reference}}}, which user_config does not declare",
                    "declare it there",
                    "user_config",
                )
    author = fields.within("author")
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.MCP,
        description=fields.text("description"),
        title=display if display != name else "",
        author=author.text("name"),
        license=fields.text("license"),
        homepage=fields.text("homepage"),
        icon=fields.text("icon"),
        runtime=CommandRuntime(command, "mcp", server.text_map("env")),
        callables=tuple(read_tools(report, fields)),
        prompts=tuple(read_prompts(fields)),
        system_config_schema=config.schema,
    )


def _user_config_schema(item: Fields) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _USER_CONFIG_TYPES.get(item.text("type"), "string")}
    for key in ("title", "description"):
        if item.text(key):
            schema[key] = item.text(key)
    for ours, theirs in (("minimum", "min"), ("maximum", "max")):
        if schema["type"] == "number" and isinstance(item.get(theirs), int | float):
            schema[ours] = item.get(theirs)
    if item.flag("sensitive"):
        schema["x-secret"] = True
    if item.text("type") in ("directory", "file"):
        schema["x-path"] = item.text("type")
    if item.flag("multiple"):
        schema = {"type": "array", "items": schema}
    if "default" in item:
        schema["default"] = item.get("default")
    return schema


# --- configuration files --------------------------------------------------------------------------------------------


def read_servers(fields: Fields, report: Report, key: Literal["mcpServers", "servers"]) -> list[Imported]:
    """Every server of an mcpServers file or of VS Code's mcp.json."""
    inputs = {item.text("id"): item for item in fields.entries("inputs")}
    found: list[Imported] = []
    names: dict[str, str] = {}
    for title, server in fields.named(key):
        name = slug(title)
        check_plugin_name(report, server.path, name)
        if name in names:
            report.error(
                server.path,
                f"{title!r} and {names[name]!r} both become the plugin {name!r}",
                "rename one of them",
                "duplicate_name",
            )
        names[name] = title
        found.append(_server(name, title, server, inputs))
    return found


def _server(name: str, title: str, server: Fields, inputs: dict[str, Fields]) -> Imported:
    config = _Config()

    def resolved(text: str) -> str:
        def from_input(found: re.Match[str]) -> str:
            asked = inputs.get(found[1])
            schema: dict[str, Any] = {"type": "string"}
            if asked and asked.text("description"):
                schema["description"] = asked.text("description")
            if asked and asked.flag("password"):
                schema["x-secret"] = True
            if asked and asked.text("default"):
                schema["default"] = asked.text("default")
            return config.field(_field_name(found[1]), schema, required="default" not in schema)

        def from_environment(found: re.Match[str]) -> str:
            value = "${" + found[1] + "}"
            return config.field(_field_name(found[1]), {"type": "string", "x-secret": True}, required=True, value=value)

        return _ENVIRONMENT.sub(from_environment, _INPUT.sub(from_input, text)) if "${" in text else text

    def kept(label: str, text: str) -> str:
        """A literal value may be a key: it moves into the configuration, whatever it looks like."""
        if "${" in text:
            return resolved(text)
        return config.field(_field_name(label), {"type": "string", "x-secret": True}, required=True, value=text)

    url = server.text("url")
    if url:
        kind = server.text("type") or server.text("transport")
        runtime: CommandRuntime | RemoteRuntime = RemoteRuntime(
            resolved(url),
            "sse" if kind == "sse" else "streamable-http",
            {header: kept(header, text) for header, text in server.text_map("headers").items()},
        )
        capabilities = _reach(url)
    else:
        env = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in server.within("env").value.items()
        }
        command = (resolved(server.text("command")), *(resolved(argument) for argument in server.texts("args")))
        runtime = CommandRuntime(
            command, "mcp", {key: kept(key, value) for key, value in env.items()}, server.optional_text("cwd")
        )
        capabilities = (NoNetwork(),)
    # These files carry no version; their content stands in for one, so that a changed entry is a new version.
    without_values = json.dumps([repr(runtime)], sort_keys=True)
    version = f"0.0.0+{hashlib.sha256(without_values.encode()).hexdigest()[:8]}"
    manifest = Manifest(
        name=PluginName(name),
        version=version,
        dialect=Dialect.MCP,
        description=f"MCP server {title}",
        title=title if title != name else "",
        runtime=runtime,
        start="lazy",
        capabilities=capabilities,
        system_config_schema=config.schema,
    )
    return Imported(manifest, config.values)


def _reach(url: str) -> tuple[Capability, ...]:
    found = re.match(r"^(https?)://(\[[0-9a-fA-F:.]+\]|[^/:?#@]+)(?::(\d{1,5}))?", url)
    if not found:
        return ()
    return (Network(found[2].lower(), int(found[3] or (443 if found[1] == "https" else 80))),)


def _field_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:100]


# --- the registry's server.json -------------------------------------------------------------------------------------


def read_registry_server(fields: Fields, report: Report) -> Manifest:
    """A registry description: the first package that can be launched, or else the first remote."""
    full = fields.text("name")
    name = slug(full.replace("/", "-"))
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    config = _Config()
    runtime: CommandRuntime | RemoteRuntime | None = None
    capabilities: tuple[Capability, ...] = ()
    packages = list(fields.entries("packages"))
    for package in packages:
        if package.text("registryType") in _LAUNCHERS and package.within("transport").text("type", "stdio") == "stdio":
            runtime = _launched(package, config)
            break
    if runtime is None:
        for remote in fields.entries("remotes"):
            headers = {item.text("name"): _variable(item, config) for item in remote.entries("headers")}
            runtime = RemoteRuntime(
                remote.text("url"), "sse" if remote.text("type") == "sse" else "streamable-http", headers
            )
            capabilities = _reach(remote.text("url"))
            break
    if runtime is None:
        report.warn(
            fields.at("packages"),
            "names no package or remote that can be started",
            f"packages of type {', '.join(sorted(_LAUNCHERS))} on stdio, or a remote, can be",
            "no_runtime",
        )
    return Manifest(
        name=PluginName(name),
        version=fields.text("version"),
        dialect=Dialect.MCP,
        description=fields.text("description"),
        title=fields.text("title") or full,
        homepage=fields.text("websiteUrl") or fields.within("repository").text("url"),
        runtime=runtime,
        start="lazy",
        capabilities=capabilities,
        system_config_schema=config.schema,
    )


def _launched(package: Fields, config: _Config) -> CommandRuntime:
    kind = package.text("registryType")
    version = package.text("version")
    identifier = package.text("identifier")
    pinned = (
        f"{identifier}{'==' if kind == 'pypi' else ':' if kind == 'oci' else '@'}{version}" if version else identifier
    )
    launcher = (package.text("runtimeHint"),) if package.text("runtimeHint") else _LAUNCHERS[kind]
    command = (
        *launcher,
        *_arguments(package, "runtimeArguments", config),
        pinned,
        *_arguments(package, "packageArguments", config),
    )
    env = {item.text("name"): _variable(item, config) for item in package.entries("environmentVariables")}
    return CommandRuntime(command, "mcp", env)


def _arguments(package: Fields, key: str, config: _Config) -> list[str]:
    found: list[str] = []
    for argument in package.entries(key):
        if argument.text("type") == "named":
            found.append(argument.text("name"))
            if not (argument.text("value") or argument.text("valueHint") or argument.flag("isRequired")):
                continue
        found.append(
            argument.text("value")
            or _variable(argument, config, argument.text("valueHint") or argument.text("name") or "argument")
        )
    return found


def _variable(item: Fields, config: _Config, name: str = "") -> str:
    """A value the description gives, or a reference to one that a person will give."""
    if item.text("value") and not item.flag("isSecret"):
        return item.text("value")
    schema: dict[str, Any] = {"type": "string"}
    if item.text("description"):
        schema["description"] = item.text("description")
    if item.flag("isSecret"):
        schema["x-secret"] = True
    if item.text("default"):
        schema["default"] = item.text("default")
    return config.field(_field_name(name or item.text("name")), schema, required=item.flag("isRequired"))
