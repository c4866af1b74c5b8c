"""Run with: python3 -m unittest"""

import unittest

from __MODULE__.adapter import map_external_event_to_intent

from paddock_sdk.testing import EntryTester


class Mapping(unittest.TestCase):
    def test_a_message_becomes_a_question_of_its_sender(self) -> None:
        adapter = EntryTester(map_external_event_to_intent, "kernel", kind="adapter")
        intent = adapter.call({"user": "U123", "text": "How?"})
        self.assertEqual(intent["intent"]["intent_type"], "Support.QA.Answer")
        self.assertEqual(intent["principal"], {"external_id": "chat:U123"})


if __name__ == "__main__":
    unittest.main()
