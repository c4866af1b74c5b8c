"""Fourth Generation Formula, spoken to as an MCP client speaks to a server on stdio."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import yaml
from tests.examples.places import EXAMPLES
from tests.sdk.conversation import Conversation, conversation

ROOT = EXAMPLES / "fourth-generation-formula"
STATE = "paddock/workflow_state"
LIMIT = 4 * 1024 * 1024


@pytest.fixture
def server() -> Generator[Conversation, None, None]:
    command = yaml.safe_load((ROOT / "paddock.yaml").read_text())["runtime"]["command"]
    with conversation(command, ROOT) as talk:
        greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = talk.call("initialize", greeting)
        assert answer["protocolVersion"] == "2025-06-18"
        assert set(answer["capabilities"]) == {"tools", "resources", "prompts"}
        talk.tell("notifications/initialized")
        yield talk


def offered() -> Any:
    return yaml.safe_load((ROOT / "manifest.yaml").read_text())["capabilities"]


def tool(server: Conversation, name: str, arguments: Any, **more: Any) -> Any:
    return server.call("tools/call", {"name": name, "arguments": arguments, **more})


def refusal(server: Conversation, name: str, arguments: Any, **more: Any) -> str:
    answer = tool(server, name, arguments, **more)
    assert answer["isError"] is True
    return answer["content"][0]["text"]


def test_the_server_offers_exactly_what_the_manifest_promises(server: Conversation) -> None:
    assert server.call("tools/list")["tools"] == offered()["tools"]
    assert server.call("resources/list")["resources"] == offered()["resources"]
    assert server.call("prompts/list")["prompts"] == offered()["prompts"]


def test_a_version_it_does_not_know_is_answered_with_one_it_does(server: Conversation) -> None:
    assert server.call("initialize", {"protocolVersion": "1999-01-01"})["protocolVersion"] == "2025-11-25"


def test_readiness_is_the_levels_that_hold_in_a_row(server: Conversation) -> None:
    answer = tool(server, "assess_transfer_readiness", {"responses": [5, 4, 3, 4, 2, 4] + [5] * 12})
    data = answer["structuredContent"]
    assert (answer["isError"], data["reached"], len(data["levels"])) == (False, 2, 9)
    assert data["levels"][1] == {"level": "Values", "average": 3.5}

    weak = tool(server, "assess_transfer_readiness", {"responses": [5, 4, 1, 1] + [5] * 14})["structuredContent"]
    assert weak["reached"] == 1 and "three values" in weak["next_step"]
    assert tool(server, "assess_transfer_readiness", {"responses": [5] * 18})["structuredContent"]["reached"] == 9


@pytest.mark.parametrize("responses", [None, [], [3] * 17, [3] * 17 + [6], [3] * 17 + [True], [3] * 17 + ["3"]])
def test_answers_that_cannot_be_judged_are_refused_in_words(server: Conversation, responses: Any) -> None:
    assert refusal(server, "assess_transfer_readiness", {"responses": responses})


def test_the_creed_holds_every_value_and_principle(server: Conversation) -> None:
    answer = tool(
        server, "generate_builders_creed", {"values": ["Candour"], "principles": ["Pay first.", "Ask\ntwice."]}
    )
    text = answer["structuredContent"]["content"]
    assert "**Candour**" in text and "1. Pay first." in text and "2. Ask twice." in text
    assert refusal(server, "generate_builders_creed", {"values": [], "principles": ["x"]})


def test_a_book_is_written_question_by_question_and_not_before_the_last_answer(server: Conversation) -> None:
    first = tool(server, "book_writing_question", {"workflow_id": "w1"})["structuredContent"]
    assert first == {"question": first["question"], "current_step": 0, "total_steps": 18, "completed": False}
    assert "18 of 18" in refusal(server, "generate_manuscript", {"workflow_id": "w1"})

    seen = [first["question"]]
    for number in range(18):
        step = tool(server, "book_writing_question", {"workflow_id": "w1", "previous_answer": f"Answer {number}."})
        seen.append(step["structuredContent"]["question"])
    assert seen[-1] is None and len(set(seen)) == 19

    book = tool(server, "generate_manuscript", {"workflow_id": "w1"})["structuredContent"]
    assert book["chapters"] == 9
    assert [f"Answer {number}." in book["content"] for number in range(18)] == [True] * 18
    assert refusal(server, "book_writing_question", {"workflow_id": "w1", "previous_answer": "more"})
    assert refusal(server, "generate_manuscript", {"workflow_id": "another"})


def test_progress_that_the_host_lends_comes_back_and_stays_nowhere_else(server: Conversation) -> None:
    ask = {"workflow_id": "w2", "previous_answer": "In a garage."}
    state = tool(server, "book_writing_question", ask, _meta={STATE: None})["_meta"][STATE]
    assert (state["current_step"], state["accumulated_data"]) == (1, {"q1": "In a garage."})

    second = {"workflow_id": "w2", "previous_answer": "A flood."}
    state = tool(server, "book_writing_question", second, _meta={STATE: state})["_meta"][STATE]
    assert state["current_step"] == 2
    kept = tool(server, "book_writing_question", {"workflow_id": "w2"})["structuredContent"]
    assert kept["current_step"] == 0
    assert refusal(server, "book_writing_question", {"workflow_id": "w3"}, _meta={STATE: state})
    assert refusal(server, "book_writing_question", {"workflow_id": "w2"}, _meta={STATE: {"workflow_id": "w2"}})


def test_both_documents_can_be_read_and_others_cannot(server: Conversation) -> None:
    for resource in offered()["resources"]:
        (content,) = server.call("resources/read", {"uri": resource["uri"]})["contents"]
        assert (content["uri"], content["mimeType"]) == (resource["uri"], "text/markdown")
        assert content["text"].startswith("# ")
    assert server.error("resources/read", {"uri": "fgf://../server.py"})["code"] == -32602
    assert server.error("resources/read", {})["code"] == -32602


def test_prompts_are_rendered_and_their_arguments_checked(server: Conversation) -> None:
    weekly = server.call("prompts/get", {"name": "weekly_reflection", "arguments": {"week_number": "4"}})
    assert "Week 4 of 13" in weekly["messages"][0]["content"]["text"]
    assert "Systems" in weekly["messages"][0]["content"]["text"]
    assert server.call("prompts/get", {"name": "transfer_conversation_starter"})["messages"]
    for arguments in ({}, {"week_number": "14"}, {"week_number": "x"}, {"week_number": "-1"}, []):
        assert server.error("prompts/get", {"name": "weekly_reflection", "arguments": arguments})["code"] == -32602
    assert server.error("prompts/get", {"name": "daily"})["code"] == -32602


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not JSON", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"burn"}}', -32602),
        (b"x" * (LIMIT + 1), -32600),
    ],
    ids=lambda value: repr(value[:32]) if isinstance(value, bytes) else None,
)
def test_a_malformed_message_gets_its_error_and_the_next_is_served(
    server: Conversation, line: bytes, code: int
) -> None:
    server.send_bytes(line + b"\n")
    assert server.receive()["error"]["code"] == code
    assert server.call("ping") == {}


def test_notifications_and_stray_answers_are_not_answered_and_a_closed_pipe_ends_it(server: Conversation) -> None:
    server.tell("notifications/cancelled", {"requestId": 1})
    server.send({"jsonrpc": "2.0", "id": 7, "result": {}})
    assert server.call("ping") == {}
    assert server.end() == (0, [])
