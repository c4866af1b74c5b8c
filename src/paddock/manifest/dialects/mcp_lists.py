"""Where the programs that speak MCP keep their list of servers: which key of which mapping of their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from paddock.manifest.report import Fields

MCP_SERVERS = "mcp-servers"
VSCODE = "vscode-mcp"


@dataclass(frozen=True, slots=True)
class ServerList:
    """A mapping of server names to servers, by the mapping that holds it."""

    holder: Fields
    key: Literal["mcpServers", "servers"]

    @property
    def form(self) -> str:
        return MCP_SERVERS if self.key == "mcpServers" else VSCODE

    @property
    def titles(self) -> list[str]:
        """The names of the servers as the file writes them, also of those that are no servers."""
        return list(self.holder.within(self.key).value)

    def only(self, wanted: Callable[[str], bool]) -> ServerList:
        """The same list with only some servers, all at the places where they were."""
        kept = {title: server for title, server in self.holder.within(self.key).value.items() if wanted(title)}
        return replace(self, holder=Fields(self.holder.value | {self.key: kept}, self.holder.path))


def server_lists(fields: Fields, file: str) -> list[ServerList]:
    """The lists of a settings file; empty when it is none.

    A program that keeps servers for everywhere and for single projects means the former, where it has any.
    """
    projects = fields.within("projects")
    of_projects = [
        ServerList(project, "mcpServers")
        for project in (Fields(value, projects.at(path)) for path, value in projects.value.items())
        if project.within("mcpServers").value
    ]
    if "mcpServers" in fields and (fields.within("mcpServers").value or not of_projects):
        return [ServerList(fields, "mcpServers")]
    if of_projects:
        return of_projects
    if "servers" in fields and (file.endswith("mcp.json") or _are_servers(fields)):
        return [ServerList(fields, "servers")]
    editor = fields.within("mcp")
    return [ServerList(editor, "servers")] if "servers" in editor else []


def _are_servers(fields: Fields) -> bool:
    servers = [server for _, server in fields.named("servers")]
    return bool(servers) and all("command" in server or "url" in server for server in servers)
