"""Run with: python3 -m unittest"""

import unittest

from __MODULE__.plugin import Plugin

from paddock_sdk.testing import EntryTester, FakeHost


class Greeting(unittest.TestCase):
    def test_whoever_was_greeted_lately_is_greeted_again(self) -> None:
        plugin = EntryTester(Plugin, host=FakeHost(["host:cache"]))
        self.assertEqual(plugin.call({"name": "Ann"})["data"], {"text": "Hello, Ann!", "again": False})
        self.assertEqual(plugin.call({"name": "Ann"})["data"], {"text": "Hello again, Ann!", "again": True})


if __name__ == "__main__":
    unittest.main()
