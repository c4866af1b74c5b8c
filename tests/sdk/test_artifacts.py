"""Artifacts of a plugin under test: the same lines as in a cage, against a host in memory."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from paddock_sdk import CapabilityDenied, Plugin, PluginFault
from paddock_sdk.testing import FakeHost, PluginTester

CONTENT = bytes(range(256)) * 5000  # more than a message carries


def under_test(work: Any, *capabilities: str) -> PluginTester:
    plugin = Plugin("maker", "1.0.0", capabilities_used=capabilities)

    @plugin.tool
    def do(params: Any, context: Any) -> Any:
        return {"did": work(plugin.host.artifacts)}

    return PluginTester(plugin, FakeHost(capabilities))


def test_bytes_paths_and_files_are_put_and_got_again_whole_and_in_part(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"in a file")

    def work(artifacts: Any) -> list[Any]:
        opened = io.BytesIO(b"skipped, then an open one")
        opened.seek(9)
        uris = [artifacts.put(each, "text/plain").wait() for each in (b"some", file, opened)]
        whole = [artifacts.get(uri).wait().decode() for uri in uris]
        return [*whole, artifacts.get(uris[1], 3, 1).wait().decode(), artifacts.delete(uris[0]).wait()]

    did = under_test(work, "host:artifacts").call("do")["did"]
    assert did == ["some", "in a file", "then an open one", "a", True]


def test_what_a_plugin_was_handed_is_read_in_several_messages_where_there_are_no_pipes() -> None:
    uri = f"artifact://sha256/{hashlib.sha256(CONTENT).hexdigest()}"

    def work(artifacts: Any) -> list[Any]:
        pieces = list(artifacts.open(uri))
        return [artifacts.get(uri).wait() == CONTENT, b"".join(pieces) == CONTENT, len(pieces)]

    it = under_test(work, "host:artifacts")
    it.host.artifacts[uri] = CONTENT
    assert it.call("do")["did"] == [True, True, 2]


def test_too_much_for_a_message_and_a_missing_grant_are_told_in_words() -> None:
    with pytest.raises(PluginFault, match="no pipes"):
        under_test(lambda artifacts: artifacts.put(CONTENT).wait(), "host:artifacts").call("do")
    denied = under_test(lambda artifacts: artifacts.put(b"").wait())
    with pytest.raises(PluginFault) as refused:
        denied.call("do")
    assert refused.value.error_code == CapabilityDenied.code
    assert denied.host.denied == ["artifacts.put"]
