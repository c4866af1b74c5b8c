"""Advice for a tool that failed because of its server's cage, of which the server knows nothing. Pure.

Only the error's text is known. What it names may be what a model chose, so no advice leads to credentials or to most of
the machine.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

from paddock.core.action import Action
from paddock.core.ids import PluginName
from paddock.manifest.capability import InvalidCapability, is_dangerous, parse_capability
from paddock.runtime.diagnosis import EVERY_HOST_HINT, network_capability

_DESTINATION: Final = "the host that the error names"
_ANY_FOLDER: Final = "FOLDER"
# Of installed packages, a server's own among them: they are never granted for writing.
_PACKAGE_FOLDERS: Final = re.compile(r"/(?:node_modules|site-packages|data/plugins|data/environments)(?:/|$)")
_PATH: Final = re.compile(r"""['"](/[^'"]{1,1000})['"]""")
_CAGE_ERROR_HINTS: Final = (
    (
        re.compile(r"outside (?:of )?(?:the )?allowed director", re.IGNORECASE),
        "it uses only the folders in its arguments; {more}",
        "write:fs:FOLDER",
        "FOLDER",
    ),
    (
        re.compile(
            r"spawn (?:/\S*bin/)?([\w.+-]{1,64}) (?:ENOENT|EACCES)\b"
            r"|\[Errno (?:2|13)\] (?:No such file or directory|Permission denied): '([\w+-]{1,64})'"
            r"|(?:sh|: line \d+|: \d+): (?:/\S*bin/)?([\w.+-]{1,64}): (?:command )?not found",
        ),
        "it runs only the programs that it was granted; {more}",
        "exec:{0}:/",
        "",
    ),
    (
        re.compile(
            r"\b(?:EROFS|EACCES)\b|read-?only (?:file ?system|database)|permission denied"
            r"|\bENOENT\b[^']{0,80}, (?:mkdir|rename)\b|unable to open database file",
            re.IGNORECASE,
        ),
        "it may write only to the paths that it was granted; {more}, and configure it to write there",
        "write:fs:{folder}",
        "",
    ),
    (
        re.compile(r"\bENOENT\b|no such file or directory", re.IGNORECASE),
        "it sees only the files that it was granted; {more}, or write:fs:{folder} if it writes there",
        "read:fs:{folder}",
        "",
    ),
    (
        re.compile(
            r"\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|getaddrinfo)\b|name or service not known"
            r"|temporary failure in name resolution|network is unreachable"
            r"|connection (?:issue|error|refused)|connection attempts failed",
            re.IGNORECASE,
        ),
        f"it reaches only the hosts that it was granted; {{more}}{EVERY_HOST_HINT}",
        _DESTINATION,
        "",
    ),
)


def cage_advice(plugin: PluginName, error_text: str, *, declares_for_itself: bool) -> tuple[str, Action | None]:
    """Return a hint and an action if a tool failed because of its cage; else an empty hint and None.

    Args:
        plugin: The server.
        error_text: What the tool said.
        declares_for_itself: Whether the server has a manifest of its own that can declare more capabilities.
    """
    folder = _folder_in(error_text)
    for pattern, hint, needed, argument in _CAGE_ERROR_HINTS:
        match = pattern.search(error_text)
        if match is None:
            continue
        if needed is _DESTINATION:
            capability = network_capability(error_text)
        else:
            parts = [part for part in match.groups() if part]
            capability = needed.format(*parts, folder=folder)
        if declares_for_itself:
            more = f"declare {capability} in a new version of its manifest"
            return hint.format(more=more, folder=folder), Action.of("plugin.upgrade", plugin=plugin)
        grant = Action.of("plugin.upgrade", plugin=plugin, argument=argument, capabilities=(capability,))
        return hint.format(more=f"grant it {capability}", folder=folder), grant
    return "", None


def _folder_in(error_text: str) -> str:
    """The folder of the path that an error names, if a person may grant that without a thought; else a form to fill."""
    match = _PATH.search(error_text)
    folder = posixpath.dirname(match[1].rstrip("/")) if match else ""
    if _PACKAGE_FOLDERS.search(folder):
        return _ANY_FOLDER
    try:
        capability = parse_capability(f"write:fs:{folder}")
    except InvalidCapability:
        return _ANY_FOLDER
    return _ANY_FOLDER if is_dangerous(capability) or folder.count("/") < 2 else folder
