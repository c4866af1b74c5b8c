"""Where the MCP clients on this machine keep their settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class ClientFile(Struct, frozen=True):
    """A file in which a client may list servers for all its projects."""

    client: str  # as `--client` takes it
    title: str
    path: Path


def client_files(environ: Mapping[str, str], home: Path) -> list[ClientFile]:
    """Return the settings files of every client that is known, whether they exist or not."""
    xdg = Path(environ.get("XDG_CONFIG_HOME", ""))
    config = xdg if xdg.is_absolute() else home / ".config"

    def directory(variable: str, fallback: Path) -> Path:
        value = Path(environ.get(variable, ""))
        return value if value.is_absolute() else fallback

    editors = [config / name / "User" for name in ("Code", "Code - Insiders", "VSCodium")]
    return [
        ClientFile("claude-desktop", "Claude Desktop", config / "Claude" / "claude_desktop_config.json"),
        ClientFile("claude-code", "Claude Code", directory("CLAUDE_CONFIG_DIR", home) / ".claude.json"),
        ClientFile("cursor", "Cursor", home / ".cursor" / "mcp.json"),
        *(ClientFile("vscode", "VS Code", user / name) for user in editors for name in ("mcp.json", "settings.json")),
        ClientFile("windsurf", "Windsurf", home / ".codeium" / "windsurf" / "mcp_config.json"),
        ClientFile("zed", "Zed", config / "zed" / "settings.json"),
        ClientFile("codex", "Codex", directory("CODEX_HOME", home / ".codex") / "config.toml"),
        ClientFile("gemini", "Gemini CLI", directory("GEMINI_CLI_HOME", home) / ".gemini" / "settings.json"),
    ]


CLIENT_NAMES = tuple(dict.fromkeys(file.client for file in client_files({}, Path("/"))))
