"""Run with: python3 -m unittest"""

import unittest

from __MODULE__.agent import propose

from paddock_sdk.testing import EntryTester


class Proposing(unittest.TestCase):
    def setUp(self) -> None:
        self.agent = EntryTester(propose, "kernel", kind="agent")

    def ask(self, context: dict, **more: object) -> dict:
        return self.agent.call({"intent": {"intent_type": "Letter.Received"}, "context": context, **more})

    def test_a_letter_leads_to_a_plan_that_waits_for_a_person(self) -> None:
        answer = self.ask({"letter": {"text": "Hello?"}})
        self.assertEqual([step["gate"] for step in answer["proposed_plan"]["steps"]], ["human_apply"])

    def test_without_the_letter_it_says_what_is_missing(self) -> None:
        self.assertEqual(self.ask({})["error"], {"code": "NEEDS_CONTEXT", "missing": ["letter.text"]})

    def test_what_is_not_on_offer_is_not_proposed(self) -> None:
        self.assertNotIn("proposed_plan", self.ask({"letter": {"text": "Hello?"}}, tool_registry=["Other.Action"]))


if __name__ == "__main__":
    unittest.main()
