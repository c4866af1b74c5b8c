"""Run with: python3 -m unittest"""

import unittest

from main import plugin

from paddock_sdk import PluginFault
from paddock_sdk.testing import PluginTester


class Greeting(unittest.TestCase):
    def setUp(self) -> None:
        self.tester = PluginTester(plugin, config={"greeting": "Hi"})

    def test_somebody_is_greeted_with_the_word_of_the_settings(self) -> None:
        self.assertEqual(self.tester.call("greet", {"name": "Ann"}), {"text": "Hi, Ann!"})

    def test_nobody_in_particular_cannot_be_greeted(self) -> None:
        with self.assertRaises(PluginFault):
            self.tester.call("greet", {"name": ""})


if __name__ == "__main__":
    unittest.main()
