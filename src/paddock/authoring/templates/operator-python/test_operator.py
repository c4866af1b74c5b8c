"""Run with: python3 -m unittest"""

import unittest

from __MODULE__.operator import write_note

from paddock_sdk.testing import EntryTester

MAY = {"auth_context": {"scopes": ["notes:write"]}, "idempotency_key": "k1"}


class Writing(unittest.TestCase):
    def setUp(self) -> None:
        self.operator = EntryTester(write_note, "kernel", kind="operator")

    def test_a_note_is_written(self) -> None:
        answer = self.operator.call({"to": "Ann", "text": "Hi"}, MAY)
        self.assertEqual((answer["status"], answer["result"]), ("succeeded", {"note": "To Ann: Hi"}))

    def test_nobody_without_the_scope_gets_one(self) -> None:
        answer = self.operator.call({"to": "Ann", "text": "Hi"}, {"auth_context": {"scopes": []}})
        self.assertEqual(answer["error"]["code"], "PERMISSION_DENIED")

    def test_a_payload_of_another_shape_is_refused(self) -> None:
        self.assertEqual(self.operator.call({"to": "Ann"}, MAY)["error"]["code"], "VALIDATION_ERROR")


if __name__ == "__main__":
    unittest.main()
