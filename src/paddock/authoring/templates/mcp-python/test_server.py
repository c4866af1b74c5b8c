"""Run with: python3 -m unittest"""

import unittest

from server import answer


class Answering(unittest.TestCase):
    def test_the_tool_that_is_listed_can_be_called(self) -> None:
        listed = answer("tools/list", {})["tools"]
        called = answer("tools/call", {"name": listed[0]["name"], "arguments": {"name": "Ann"}})
        self.assertEqual(called["content"], [{"type": "text", "text": "Hello, Ann!"}])

    def test_a_call_without_a_name_is_refused(self) -> None:
        self.assertTrue(answer("tools/call", {"name": "greet", "arguments": {}})["isError"])


if __name__ == "__main__":
    unittest.main()
