"""Run with: python3 -m unittest"""

import unittest

from __MODULE__.tool import count

from paddock_sdk.testing import EntryTester


class Counting(unittest.TestCase):
    def setUp(self) -> None:
        self.tool = EntryTester(count, "kernel", kind="tool")

    def test_words_are_counted(self) -> None:
        self.assertEqual(self.tool.call({"text": "one two"}), {"result": {"words": 2}})

    def test_a_payload_of_another_shape_is_refused(self) -> None:
        self.assertEqual(self.tool.call({"text": 7})["error"]["code"], "VALIDATION_ERROR")


if __name__ == "__main__":
    unittest.main()
