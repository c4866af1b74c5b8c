"""MCP servers as their clients list them: mcpServers JSON and VS Code's mcp.json."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.core.ids import PluginName
from paddock.manifest.capability import Capability, NoNetwork
from paddock.manifest.dialects.key_shapes import (
    ASSIGNMENT,
    ENVIRONMENT_OPTIONS,
    HEADER,
    OPTION,
    names_a_key,
    without_keys,
    without_random_segments,
)
from paddock.manifest.dialects.mcp_lists import ServerList
from paddock.manifest.dialects.mcp_settings import Imported, Settings, reach, with_literals_moved
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, RemoteRuntime
from paddock.manifest.names import slug
from paddock.manifest.report import Fields, Report
from paddock.manifest.rules import check_env, check_own_schema, check_plugin_name, check_shown, check_slug

_INPUT = re.compile(r"\$\{input:([^}]{1,200})\}")
_ENVIRONMENT = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# What an editor fills in by itself; here a person gives it once.
_EDITOR = frozenset({"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator"})
_QUERY_VALUE = re.compile(r"(?<=[?&])([^=&#]+)=([^&#]+)")


def read_servers(lists: Sequence[ServerList], report: Report) -> list[Imported]:
    """Every server of the file, each with the values that the file held for it."""
    found: list[Imported] = []
    names: dict[str, tuple[str, Fields]] = {}
    for servers in lists:
        inputs = {item.text("id"): item for item in servers.holder.entries("inputs")}
        for title, server in servers.holder.named(servers.key):
            name = slug(title)
            check_slug(report, server.path, title or " ", name)
            check_plugin_name(report, server.path, name)
            check_shown(report, server.path, title)
            if len(title) > 200:
                report.error(server.path, "the name is longer than 200 characters", "shorten it", "name")
            other = names.get(name)
            if other is not None and (title, server.value) == (other[0], other[1].value):
                continue  # the same server, listed for another project too
            if name and other is not None:
                report.error(
                    server.path,
                    f"{title!r} and {other[0]!r} both become the plugin {name!r}",
                    "rename one of them",
                    "duplicate_name",
                )
            names[name] = title, server
            found.append(_Server(server, inputs, report).imported(name, title))
    return found


class _Server:
    """One entry of the file, being turned into a plugin."""

    def __init__(self, server: Fields, inputs: dict[str, Fields], report: Report) -> None:
        self._server = server
        self._inputs = inputs
        self._report = report
        self._settings = Settings()

    def imported(self, name: str, title: str) -> Imported:
        if self._server.text("envFile"):
            self._report.warn(
                self._server.at("envFile"),
                "is not read: the variables in that file are not taken over",
                "write the ones the server needs under 'env', then import it again",
                "env_file",
            )
        capabilities: tuple[Capability, ...] = (NoNetwork(),)
        if self._server.text("url"):
            runtime: CommandRuntime | RemoteRuntime = self._remote()
            capabilities = reach(self._report, self._server.at("url"), self._server.text("url"))
        else:
            runtime = self._local()
        check_own_schema(self._report, self._server.path, self._settings.schema)
        # These files carry no version; their content stands in for one, so that a changed entry is a new version.
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
        return Imported(manifest, self._settings.values)

    def _remote(self) -> RemoteRuntime:
        server = self._server
        kind = server.text("type") or server.text("transport")
        address, mark, query = server.text("url").partition("?")
        address = without_random_segments(address, lambda label, text: self._moved("url", label, text))
        url = address + _QUERY_VALUE.sub(
            lambda found: f"{found[1]}={self._moved('url', found[1], found[2])}", mark + query
        )
        headers = {name: self._moved("header", name, text) for name, text in server.text_map("headers").items()}
        return RemoteRuntime(self._resolved(url), "sse" if kind == "sse" else "streamable-http", headers)

    def _local(self) -> CommandRuntime:
        server = self._server
        values = server.within("env").value
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        check_env(self._report, Fields({"env": texts}, server.path))
        env = {key: self._moved("env", key, value) for key, value in texts.items()}
        command = (self._resolved(server.text("command")), *self._arguments(server.texts("args")))
        cwd = server.optional_text("cwd")
        return CommandRuntime(command, "mcp", env, None if cwd is None else self._resolved(cwd))

    def _arguments(self, texts: tuple[str, ...]) -> Iterator[str]:
        """Arguments as they are, but for what may be a key in them."""
        option = ""
        for text in texts:
            given = OPTION.fullmatch(text)
            if names_a_key(option) and not text.startswith("-"):
                yield self._moved("option", option, text)
                option = ""
            elif given and given[2] and names_a_key(given[1]):
                yield f"{given[1]}={self._moved('option', given[1], given[2])}"
                option = ""
            else:
                yield self._argument(text, option)
                option = text if given and given[2] is None else ""

    def _argument(self, text: str, option: str) -> str:
        """One argument that follows no option which names a key."""
        given = ASSIGNMENT.fullmatch(text)
        # What is set in a container's environment is moved as what is set in ours: whatever it looks like.
        if given and (option in ENVIRONMENT_OPTIONS or text.startswith(("-e", "--env=")) or names_a_key(given[2])):
            return given[1] + self._moved("argument", given[2], given[3])
        header = HEADER.fullmatch(text)
        if header and names_a_key(header[1]):
            return f"{header[1]}: {self._moved('argument', header[1], header[2])}"
        label = option or "key"
        return self._resolved(without_keys(text, label, lambda name, part: self._moved("argument", name, part)))

    def _moved(self, origin: str, label: str, text: str) -> str:
        """A value that may be a key, out of the manifest and into the configuration."""
        name = label.lstrip("-")
        return with_literals_moved(self._resolved(text), lambda part: self._settings.secret(origin, name, part))

    def _resolved(self, text: str) -> str:
        """A text with our references in place of the file's own."""
        if "${" not in text:
            return text
        return _ENVIRONMENT.sub(self._from_environment, _INPUT.sub(self._from_input, text))

    def _from_input(self, found: re.Match[str]) -> str:
        asked = self._inputs.get(found[1])
        schema: dict[str, Any] = {"type": "string"}
        if asked and asked.text("description"):
            schema["description"] = asked.text("description")
        if asked is None or asked.flag("password"):
            schema["x-secret"] = True
        if asked and asked.text("default"):
            schema["default"] = asked.text("default")
        return self._settings.field("input", found[1], schema, required="default" not in schema)

    def _from_environment(self, found: re.Match[str]) -> str:
        if found[1] in _EDITOR:
            return self._settings.field("editor", found[1], {"type": "string"}, required=True)
        if found[2]:
            # Ours knows no fallback: the one the file names is taken.
            return self._settings.secret("environment", found[1], found[2])
        schema: dict[str, Any] = {"type": "string", "x-secret": True}
        return self._settings.field("environment", found[1], schema, required=True, value="${" + found[1] + "}")
