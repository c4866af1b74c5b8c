"""MCP bundles: the manifest.json of an .mcpb or .dxt file, versions 0.1 to 0.4."""

from __future__ import annotations

import re
from typing import Any

from paddock.core.ids import PluginName
from paddock.manifest.dialects.mcp_callables import read_prompts, read_tools
from paddock.manifest.dialects.mcp_user_config import find_references
from paddock.manifest.model import CommandRuntime, Dialect, JsonObject, Manifest
from paddock.manifest.names import slug
from paddock.manifest.rules.field_rules import (
    check_built_schema,
    check_display_text,
    check_plugin_name,
    check_slug,
    check_version,
    read_display_text,
    read_env,
)
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "mcpb"
_PLATFORM = "linux"
_USER_CONFIG_TYPES = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "directory": "string",
    "file": "string",
}


def read(fields: Fields, report: ProblemReport) -> Manifest:
    """Map a bundle's manifest onto the model, reporting every broken rule."""
    full_name = read_display_text(report, fields, "name")
    name = full_name if re.fullmatch(r"[a-z][a-z0-9-]*", full_name) else slug(full_name)
    check_slug(report, fields.at("name"), full_name, name)
    check_plugin_name(report, fields.at("name"), name)
    check_version(report, fields.at("version"), fields.text("version"))
    display = read_display_text(report, fields, "display_name") or full_name
    config = _config_schema(fields)
    check_built_schema(report, fields.at("user_config"), config)
    author = fields.within("author")
    check_display_text(report, author.at("name"), author.text("name"))
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
        runtime=_read_runtime(report, fields),
        callables=tuple(read_tools(report, fields)),
        prompts=tuple(read_prompts(fields)),
        system_config_schema=config,
    )


def _read_runtime(report: ProblemReport, fields: Fields) -> CommandRuntime:
    """Read the program as it is started on this platform."""
    server = fields.within("server").within("mcp_config")
    override = server.within("platform_overrides").within(_PLATFORM)
    command = override if "command" in override else server
    args = override if "args" in override else server
    argv = (command.text("command"), *args.texts("args"))
    env = read_env(report, server) | read_env(report, override)
    declared = fields.within("user_config").value
    for path, texts in ((args.at("args"), list(argv)), (server.at("env"), list(env.values()))):
        for reference in find_references(texts):
            if reference not in declared:
                report.error(
                    path,
                    f"uses ${{user_config.{reference}}}, which user_config does not declare",
                    "declare it there",
                    "user_config",
                )
    return CommandRuntime(argv, "mcp", env)


def _config_schema(fields: Fields) -> JsonObject | None:
    properties = {key: _field_schema(item) for key, item in fields.named("user_config")}
    if not properties:
        return None
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [key for key, item in fields.named("user_config") if item.flag("required")]
    return schema | {"required": required} if required else schema


def _field_schema(item: Fields) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _USER_CONFIG_TYPES.get(item.text("type"), "string")}
    for key in ("title", "description"):
        if item.text(key):
            schema[key] = item.text(key)
    for keyword, key in (("minimum", "min"), ("maximum", "max")):
        if schema["type"] == "number" and item.optional_number(key) is not None:
            schema[keyword] = item.get(key)
    if item.flag("sensitive"):
        schema["x-secret"] = True
    if item.text("type") in ("directory", "file"):
        schema["x-path"] = item.text("type")
    if item.flag("multiple"):
        schema = {"type": "array", "items": schema}
    if "default" in item:
        schema["default"] = item.get("default")
    return schema
