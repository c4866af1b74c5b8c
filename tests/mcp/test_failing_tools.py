"""Tools that fail because of their cage: the server cannot know, so the hint is ours."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.core.action import Action
from paddock.core.errors import PluginError
from paddock.core.ids import PluginName
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.runtime.protocols.mcp.results import parse_call_result

# As servers on Node and Python word them.
WRITING = {
    "EROFS: read-only file system, open '/srv/notes/memory.jsonl'": "write:fs:/srv/notes",
    "[Errno 30] Read-only file system: '/srv/notes/x'": "write:fs:/srv/notes",
    "[Errno 13] Permission denied: '/srv/notes/x'": "write:fs:/srv/notes",
    "ENOENT: no such file or directory, mkdir '/srv/notes/new'": "write:fs:/srv/notes",
    # No path, or one around too much.
    "EACCES: permission denied, mkdir '/srv'": "write:fs:FOLDER",
    "ENOENT: no such file or directory, mkdir '/srv/notes'": "write:fs:FOLDER",
    "EROFS: read-only file system, open '/home/ada/.ssh/authorized_keys'": "write:fs:FOLDER",
    "EROFS: read-only file system, open '/srv/notes/../../etc/x'": "write:fs:FOLDER",
    "EROFS: read-only file system, open '/srv/p/node_modules/memory/dist/memory.jsonl'": "write:fs:FOLDER",  # its own
    "attempt to write a readonly database": "write:fs:FOLDER",
    "unable to open database file": "write:fs:FOLDER",
}
RUNNING = {
    "spawn git ENOENT": "exec:git:/",
    "spawn /usr/bin/git EACCES": "exec:git:/",
    "FileNotFoundError: [Errno 2] No such file or directory: 'git'": "exec:git:/",
    "PermissionError: [Errno 13] Permission denied: 'git'": "exec:git:/",
    "/bin/sh: 1: git: not found": "exec:git:/",
}
REACHING = {
    "getaddrinfo ENOTFOUND api.example.com": "net:api.example.com:443",
    "[Errno -2] Name or service not known": "net:HOST:PORT",
    "[Errno -3] Temporary failure in name resolution": "net:HOST:PORT",
    "Failed to fetch robots.txt https://example.com/robots.txt due to a connection issue": "net:example.com:443",
    "Failed to fetch http://example.com:8080/ due to a connection issue": "net:example.com:8080",
    "HTTPConnectionPool(host='example.com', port=80): Max retries exceeded: connection error": "net:example.com:80",
    "All connection attempts failed": "net:HOST:PORT",
}


def advice_for(words: str) -> tuple[str, Action | None]:
    raw: dict[str, Any] = {"isError": True, "content": [{"type": "text", "text": words}]}
    with pytest.raises(PluginError) as failed:
        parse_call_result(PluginName("server"), CallableSpec("store", CallableForm.TOOL), raw)
    assert str(failed.value) == words
    return failed.value.hint, failed.value.action


def upgrade(capability: str, argument: str = "") -> Action:
    return Action.of("plugin.upgrade", plugin="server", argument=argument, capabilities=(capability,))


@pytest.mark.parametrize(("words", "capability"), WRITING.items())
def test_a_tool_that_could_not_write_is_answered_with_where_it_may(words: str, capability: str) -> None:
    hint, action = advice_for(words)
    assert action == upgrade(capability)
    assert f"it may write only to the paths that it was granted; grant it {capability}" in hint


@pytest.mark.parametrize(("words", "capability"), RUNNING.items())
def test_a_tool_that_could_not_run_a_program_is_answered_with_its_grant(words: str, capability: str) -> None:
    hint, action = advice_for(words)
    assert action == upgrade(capability)
    assert hint == f"it runs only the programs that it was granted; grant it {capability}"


@pytest.mark.parametrize(("words", "capability"), REACHING.items())
def test_a_tool_that_could_not_reach_a_host_is_answered_with_the_grant_of_that_host_and_of_every_host(
    words: str, capability: str
) -> None:
    hint, action = advice_for(words)
    assert action == upgrade(capability)
    assert hint.endswith(f"grant it {capability}, or net:* where it has to reach every public host")


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("ENOENT: no such file or directory, open '/srv/docs/x'", upgrade("read:fs:/srv/docs")),
        ("[Errno 2] No such file or directory: '/srv/docs/x'", upgrade("read:fs:/srv/docs")),
        ("[Errno 2] No such file or directory: '/etc/shadow'", upgrade("read:fs:FOLDER")),
        ("Access denied - path outside allowed directories: /srv/x", upgrade("write:fs:FOLDER", "FOLDER")),
    ],
)
def test_a_tool_that_did_not_find_a_file_is_answered_with_the_upgrade_that_grants_more(
    words: str, action: Action
) -> None:
    hint, found = advice_for(words)
    assert found == action
    (read,) = action.to_json()["arguments"]["capabilities"] if "ENOENT" in words else ("",)
    assert not read or hint.endswith(f"grant it {read}, or {read.replace('read', 'write')} if it writes there")


def test_a_tool_that_failed_for_a_reason_of_its_own_has_no_hint_of_ours() -> None:
    assert advice_for("no such entity: Ada; the connection to her is lost") == ("", None)
