"""Run with: python3 -m unittest"""

import unittest

from __MODULE__.plugin import Plugin

from paddock_sdk.testing import EntryTester, FakeHost


class Greeting(unittest.TestCase):
    def test_greetings_are_counted(self) -> None:
        plugin = EntryTester(Plugin, host=FakeHost(["host:storage"]), with_loop=True)
        self.assertEqual(plugin.call({"name": "Ann"})["data"], {"text": "Hello, Ann!", "times": 1})
        self.assertEqual(plugin.call({"name": "Ann"})["data"]["times"], 2)


if __name__ == "__main__":
    unittest.main()
