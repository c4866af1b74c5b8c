"""Rules for the names of plugins and their callables, so that no two can be confused."""

from __future__ import annotations

import re
import unicodedata

from paddock.core.action import Action
from paddock.core.errors import OperatorError
from paddock.core.ids import PluginName
from paddock.core.printable import printable

MAX_NAME_CHARS = 64
RESERVED_NAMES = frozenset({"paddock", "kaged", "system", "host", "mcp", "plugin", "plugins"})
# The agent's own tools live under these; a plugin of that name is legal and confusing.
BUILT_IN_NAMESPACES = frozenset({"file", "search", "code", "debug", "shell"})
RESERVED_METHOD_OWNERS = ("kaged.", "paddock.", "system.")

_PLUGIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*((?:[._]|-+)[A-Za-z0-9]+)*-*")
_KAGED_NAME = re.compile(r"[a-z][a-z0-9-]*")
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]*")
_METHOD_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,3}")
_MCP_TOOL_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


def choose_plugin_name(chosen: str | None, proposed: str, *, source: str, install: Action | None) -> PluginName:
    """Return the name that a person chose, else the one that a source proposes; `install` chooses one.

    Raises:
        OperatorError: it is not valid.
    """
    name = chosen or proposed
    problem = plugin_name_problem(name)
    if problem:
        message, hint = problem
        raise OperatorError(
            f"the plugin's name {printable(name)} {message}" if chosen else f"{source} gives no name: {message}",
            code="plugin.bad_name",
            hint=hint if chosen else "choose one",
            action=None if chosen else install,
        )
    return PluginName(name)


def plugin_name_problem(name: str) -> tuple[str, str] | None:
    """Return what is wrong with a plugin name in any dialect, with a hint; None if nothing is."""
    if not name:
        return "is empty", "give the plugin a name"
    if len(name) > MAX_NAME_CHARS:
        return f"is longer than {MAX_NAME_CHARS} characters", "choose a shorter name"
    non_ascii = next((character for character in name if not character.isascii()), None)
    if non_ascii is not None:
        label = unicodedata.name(non_ascii, "an unnamed character")
        return (
            f"has the character U+{ord(non_ascii):04X} ({label.lower()}), which can pass for another",
            "use plain ASCII letters, digits and '-'",
        )
    if "__" in name or ":" in name:
        return "has '__' or ':' in it, which Paddock uses to join names", "use a single '-' or '_'"
    if name.lower() in RESERVED_NAMES:
        return f"{name!r} is reserved", "choose another name"
    if not _PLUGIN_NAME.fullmatch(name):
        return (
            f"{_quoted_name(name)} is not a name",
            "start with a letter; then letters and digits, joined by '-', '_' or '.'",
        )
    return None


def kaged_name_problem(name: str) -> tuple[str, str] | None:
    """Return what is wrong with a name under kaged's stricter rule; None if nothing is."""
    problem = plugin_name_problem(name)
    if problem is None and not _KAGED_NAME.fullmatch(name):
        return f"{_quoted_name(name)} is not a slug", "use lowercase letters, digits and '-', starting with a letter"
    return problem


def is_tool_name(name: str) -> bool:
    """Whether it is a single lowercase segment, as kaged and native tools are named."""
    return bool(_TOOL_NAME.fullmatch(name)) and len(name) <= MAX_NAME_CHARS


def is_mcp_tool_name(name: str) -> bool:
    """Whether it is a valid MCP tool name."""
    return bool(_MCP_TOOL_NAME.fullmatch(name))


def method_name_problem(name: str) -> tuple[str, str] | None:
    """Return what is wrong with a method or notification name; None if nothing is."""
    if name.startswith(RESERVED_METHOD_OWNERS):
        return (
            f"{_quoted_name(name)} is in a reserved namespace",
            "methods may not begin with 'kaged.', 'paddock.' or 'system.'",
        )
    if not _METHOD_NAME.fullmatch(name):
        return (
            f"{_quoted_name(name)} is not a method name",
            "write 2 to 4 lowercase segments joined by dots, e.g. 'presets.list'",
        )
    return None


def slug(text: str) -> str:
    """Turn a display name into an id: `Fourth Generation Formula` -> `fourth-generation-formula`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower().replace("'", "")
    joined = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if joined[:1].isdigit():
        joined = f"p-{joined}"
    return joined[:MAX_NAME_CHARS].strip("-")


def _quoted_name(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "…")


def full_name(plugin: str, callable_name: str) -> str:
    """Return the name of a callable in policies, consents and allowlists: `plugin.callable`.

    It is the plugin's name alone where the plugin is the callable.
    """
    return plugin if callable_name == plugin else f"{plugin}.{callable_name}"
