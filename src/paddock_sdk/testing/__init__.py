"""Test a plugin inside the test process, with a host that keeps everything in memory.

    from paddock_sdk.testing import FakeHost, PluginTester

    tester = PluginTester(plugin, FakeHost(["storage:write"]))
    assert tester.call("add_note", {"text": "x"}) == {"id": "1"}

Messages go through JSON here too, so a value that could not be sent fails in the test as well.
"""

from __future__ import annotations

from paddock_sdk.testing.entries import EntryTester
from paddock_sdk.testing.fake_host import FakeHost
from paddock_sdk.testing.plugins import PluginTester

__all__ = ["EntryTester", "FakeHost", "PluginTester"]
