"""Reads MCP servers from the settings of MCP clients into the model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability, NoNetwork
from paddock.manifest.dialects.credential_patterns import (
    ASSIGNMENT,
    ENVIRONMENT_OPTIONS,
    HEADER,
    OPTION,
    extract_keys,
    extract_random_segments,
    is_secret_name,
)
from paddock.manifest.dialects.mcp_server_lists import ServerList, standard_entry
from paddock.manifest.dialects.mcp_user_config import (
    ConfigFieldBuilder,
    ImportedServer,
    extract_literals,
    remote_capabilities,
)
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, RemoteRuntime
from paddock.manifest.names import slug
from paddock.manifest.rules.field_rules import (
    check_built_schema,
    check_display_text,
    check_plugin_name,
    check_slug,
    read_env,
)
from paddock.manifest.syntax.fields import Fields, ProblemReport

_INPUT_REFERENCE = re.compile(r"\$\{input:([^}]{1,200})\}")
_ENV_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# Variables that an editor fills in; here a person sets them once.
_EDITOR_VARIABLES = frozenset({"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator"})
_BARE_REFERENCE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")  # a whole value, as Gemini CLI writes a variable
_QUERY_VALUE = re.compile(r"(?<=[?&])([^=&#]+)=([^&#]+)")


def read_servers(lists: Sequence[ServerList], report: ProblemReport) -> list[ImportedServer]:
    """Read every server of the file, each with the configuration values that the file held."""
    servers_read: list[ImportedServer] = []
    names: dict[str, tuple[str, Fields]] = {}
    for servers in lists:
        inputs = {item.text("id"): item for item in servers.holder.entries("inputs")}
        titles = set(servers.titles)
        for title, server in servers.holder.named(servers.key):
            if title not in titles:
                continue
            name = slug(title)
            check_slug(report, server.path, title or " ", name)
            check_plugin_name(report, server.path, name)
            check_display_text(report, server.path, title)
            if len(title) > 200:
                report.error(server.path, "the name is longer than 200 characters", "shorten it", "name")
            existing = names.get(name)
            if existing is not None and (title, server.value) == (existing[0], existing[1].value):
                continue  # the same server, listed for another project
            if name and existing is not None:
                report.error(
                    server.path,
                    f"{title!r} and {existing[0]!r} both become the plugin {name!r}",
                    "rename one of them",
                    "duplicate_name",
                )
            names[name] = title, server
            servers_read.append(_ServerReader(standard_entry(servers.form, server), inputs, report).build(name, title))
    return servers_read


class _ServerReader:
    """Turns one entry of the file into a plugin."""

    def __init__(self, server: Fields, inputs: dict[str, Fields], report: ProblemReport) -> None:
        self._server = server
        self._inputs = inputs
        self._report = report
        self._settings = ConfigFieldBuilder()

    def build(self, name: str, title: str) -> ImportedServer:
        if self._server.text("envFile"):
            self._report.warn(
                self._server.at("envFile"),
                "is not read: the variables in that file are not taken over",
                "write the ones the server needs under 'env', then import it again",
                "env_file",
            )
        capabilities: tuple[Capability, ...] = (NoNetwork(),)
        if self._server.text("url"):
            runtime: CommandRuntime | RemoteRuntime = self._read_remote()
            capabilities = remote_capabilities(self._report, self._server.at("url"), self._server.text("url"))
        else:
            runtime = self._read_command()
        check_built_schema(self._report, self._server.path, self._settings.schema)
        # These files have no version; a digest of the content replaces it, so that a changed entry is a new version.
        digest = hashlib.sha256(repr(runtime).encode("utf-8", "backslashreplace")).hexdigest()
        manifest = Manifest(
            name=PluginName(name),
            version=f"0.0.0+{digest[:8]}",
            dialect=Dialect.MCP,
            description=f"MCP server {title}",
            title=title if title != name else "",
            runtime=runtime,
            start="lazy",
            capabilities=capabilities,
            system_config_schema=self._settings.schema,
        )
        return ImportedServer(manifest, self._settings.values)

    def _read_remote(self) -> RemoteRuntime:
        server = self._server
        kind = server.text("type") or server.text("transport")
        base, separator, query = server.text("url").partition("?")
        base = extract_random_segments(base, lambda label, text: self._extract_value("url", label, text))
        url = base + _QUERY_VALUE.sub(
            lambda match: f"{match[1]}={self._extract_value('url', match[1], match[2])}", separator + query
        )
        headers = {name: self._extract_value("header", name, text) for name, text in server.text_map("headers").items()}
        return RemoteRuntime(self._resolve_references(url), "sse" if kind == "sse" else "streamable-http", headers)

    def _read_command(self) -> CommandRuntime:
        server = self._server
        values = server.within("env").value
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        read_env(self._report, Fields({"env": texts}, server.path))
        env = {key: self._extract_value("env", key, value) for key, value in texts.items()}
        command = (self._resolve_references(server.text("command")), *self._arguments(server.texts("args")))
        cwd = server.optional_text("cwd")
        return CommandRuntime(command, "mcp", env, None if cwd is None else self._resolve_references(cwd))

    def _arguments(self, texts: tuple[str, ...]) -> Iterator[str]:
        """Yield the arguments, with possible keys moved into the configuration."""
        option = ""
        for text in texts:
            match = OPTION.fullmatch(text)
            if is_secret_name(option) and not text.startswith("-"):
                yield self._extract_value("option", option, text)
                option = ""
            elif match and match[2] and is_secret_name(match[1]):
                yield f"{match[1]}={self._extract_value('option', match[1], match[2])}"
                option = ""
            else:
                yield self._argument(text, option)
                option = text if match and match[2] is None else ""

    def _argument(self, text: str, option: str) -> str:
        """Return one argument that does not follow an option for a key."""
        match = ASSIGNMENT.fullmatch(text)
        # Values for a container's environment are always moved, like those for our own, whatever they look like.
        if match and (option in ENVIRONMENT_OPTIONS or text.startswith(("-e", "--env=")) or is_secret_name(match[2])):
            return match[1] + self._extract_value("argument", match[2], match[3])
        header = HEADER.fullmatch(text)
        if header and is_secret_name(header[1]):
            return f"{header[1]}: {self._extract_value('argument', header[1], header[2])}"
        label = option or "key"
        return self._resolve_references(
            extract_keys(text, label, lambda name, part: self._extract_value("argument", name, part))
        )

    def _extract_value(self, origin: str, label: str, text: str) -> str:
        """Move a value that may be a key out of the manifest and into the configuration."""
        name = label.lstrip("-")
        text = _BARE_REFERENCE.sub(r"${\1}", text) if _BARE_REFERENCE.fullmatch(text) else text
        return extract_literals(
            self._resolve_references(text), lambda part: self._settings.add_secret(origin, name, part)
        )

    def _resolve_references(self, text: str) -> str:
        """Replace the file's own references by ours."""
        if "${" not in text:
            return text
        return _ENV_REFERENCE.sub(self._environment_reference, _INPUT_REFERENCE.sub(self._input_reference, text))

    def _input_reference(self, match: re.Match[str]) -> str:
        declared = self._inputs.get(match[1])
        schema: dict[str, Any] = {"type": "string"}
        if declared and declared.text("description"):
            schema["description"] = declared.text("description")
        if declared is None or declared.flag("password"):
            schema["x-secret"] = True
        if declared and declared.text("default"):
            schema["default"] = declared.text("default")
        return self._settings.add_field("input", match[1], schema, required="default" not in schema)

    def _environment_reference(self, match: re.Match[str]) -> str:
        if match[1] in _EDITOR_VARIABLES:
            return self._settings.add_field("editor", match[1], {"type": "string"}, required=True)
        if match[2]:
            # Our references have no fallback, so the fallback in the file becomes the value.
            return self._settings.add_secret("environment", match[1], match[2])
        schema: dict[str, Any] = {"type": "string", "x-secret": True}
        return self._settings.add_field("environment", match[1], schema, required=True, value="${" + match[1] + "}")
