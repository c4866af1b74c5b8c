"""Finds the lists of MCP servers in the settings of MCP clients, and reads entries of every client in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.manifest.names import slug
from paddock.manifest.syntax.fields import Fields

MCP_SERVERS: Final = "mcp-servers"
VSCODE: Final = "vscode-mcp"
ZED: Final = "zed-settings"
CODEX: Final = "codex-config"
LIST_KEYS: Final = {MCP_SERVERS: "mcpServers", VSCODE: "servers", ZED: "context_servers", CODEX: "mcp_servers"}
CLIENT_FORMS: Final = frozenset(LIST_KEYS)


class ServerList(Struct, frozen=True):
    """A mapping of server names to servers, identified by the mapping that contains it."""

    holder: Fields
    form: str

    @property
    def key(self) -> str:
        return LIST_KEYS[self.form]

    @property
    def path(self) -> tuple[str | int, ...]:
        return self.holder.at(self.key)

    @property
    def servers(self) -> dict[str, Any]:
        """The entries as the file writes them, invalid ones included."""
        return self.holder.within(self.key).value

    @property
    def titles(self) -> list[str]:
        """The names of the servers that the client starts by their entry."""
        return [title for title, server in self.servers.items() if not (self.form == ZED and _is_zed_extension(server))]

    def only(self, select: Callable[[str], bool]) -> ServerList:
        """Return the list with only the selected servers; their paths stay the same."""
        selected = {title: server for title, server in self.servers.items() if select(title)}
        return replace(self, holder=Fields(self.holder.value | {self.key: selected}, self.holder.path))


def find_server_lists(fields: Fields, file: str) -> list[ServerList]:
    """Return the server lists of a settings file; empty if it has none.

    A server of a single project is left out if another one has its name for all projects.
    """
    projects = fields.within("projects")
    project_lists = [
        ServerList(Fields(value, projects.at(path)), MCP_SERVERS) for path, value in projects.value.items()
    ]
    project_lists = [servers for servers in project_lists if servers.servers]
    if "mcpServers" in fields:
        for_all = ServerList(fields, MCP_SERVERS)
        if not for_all.servers and project_lists:
            return project_lists
        return [for_all, *_without_overridden(project_lists, for_all)]
    if project_lists:
        return project_lists
    if "servers" in fields and (file.endswith("mcp.json") or _looks_like_servers(fields)):
        return [ServerList(fields, VSCODE)]
    editor = fields.within("mcp")
    if "servers" in editor:
        return [ServerList(editor, VSCODE)]
    if "context_servers" in fields:
        servers = ServerList(fields, ZED)
        return [servers] if servers.titles or not servers.servers else []
    return [ServerList(fields, CODEX)] if "mcp_servers" in fields else []


def _without_overridden(project_lists: list[ServerList], for_all: ServerList) -> list[ServerList]:
    names = {slug(title) for title in for_all.titles}

    def is_own(servers: ServerList, title: str) -> bool:
        return slug(title) not in names or servers.servers[title] == for_all.servers.get(title)

    lists = [servers.only(lambda title, servers=servers: is_own(servers, title)) for servers in project_lists]
    return [servers for servers in lists if servers.servers]


def _looks_like_servers(fields: Fields) -> bool:
    servers = [server for _, server in fields.named("servers")]
    return bool(servers) and all("command" in server or "url" in server for server in servers)


def _is_zed_extension(server: Any) -> bool:
    """Whether an entry holds the settings of an extension, which starts its server itself."""
    if not isinstance(server, dict):
        return False
    entry = cast("dict[str, Any]", server)
    return not ("command" in entry or "url" in entry) and ("settings" in entry or entry.get("source") == "extension")


def standard_entry(form: str, server: Fields) -> Fields:
    """Return an entry as most clients write it: `command`, `args` and `env`, or `url` and `headers`."""
    value = dict(server.value)
    if form == MCP_SERVERS:
        for key in ("httpUrl", "serverUrl"):  # Gemini CLI, Windsurf
            if "url" not in value and key in value:
                value["url"] = value[key]
    elif form == ZED and isinstance(command := value.get("command"), dict):
        nested = Fields(command)
        value |= {"command": nested.text("path"), "args": nested.items("args"), "env": nested.get("env")}
    elif form == CODEX:
        value |= {"env": _codex_env(server), "headers": _codex_headers(server)}
    return Fields(value, server.path)


def _codex_env(server: Fields) -> dict[str, Any]:
    """Return the variables: those with a value, and the names of those that Codex passes on from its own."""
    names = [*server.texts("env_vars"), *(entry.text("name") for entry in server.entries("env_vars"))]
    return {name: _variable(name) for name in names if name} | server.within("env").value


def _codex_headers(server: Fields) -> dict[str, str]:
    headers = server.text_map("http_headers")
    headers |= {name: _variable(variable) for name, variable in server.text_map("env_http_headers").items()}
    if token := server.text("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer {_variable(token)}"
    return headers


def _variable(name: str) -> str:
    return "${" + name + "}"
