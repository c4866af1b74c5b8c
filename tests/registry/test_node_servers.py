"""Servers of the npm registry, in cages, called for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.registry.conftest import Shop

pytestmark = pytest.mark.registry


def test_everything_answers_tells_its_progress_and_takes_no_for_an_answer(shop: Shop) -> None:
    server = shop.npm("everything")
    assert server.said("echo", message="hello") == "Echo: hello"
    assert "is 5" in server.said("get-sum", a=2, b=3)

    slow = server.paddock(
        "call", "server-everything.trigger-long-running-operation", "--params", '{"duration": 0.4, "steps": 4}'
    )
    assert [line for line in slow.err.splitlines() if line.endswith("/4")] == ["1/4", "2/4", "3/4", "4/4"]
    assert "declined" in server.said("trigger-elicitation-request")  # nobody is there to be asked


@pytest.mark.req("B-02", "unknown servers run caged")
def test_filesystem_sees_the_folder_that_was_granted_and_no_other(shop: Shop, tmp_path: Path, granted: Path) -> None:
    (granted / "letter.txt").write_text("Dear Ada")
    (tmp_path / "diary.txt").write_text("nobody's business")
    # The server itself would open everything: what it does not see, its cage keeps from it.
    server = shop.npm("filesystem", "--arg", "/", "--capability", f"write:fs:{granted}")

    assert server.said("list_directory", path=str(granted)) == "[FILE] letter.txt"
    assert server.said("read_text_file", path=str(granted / "letter.txt")) == "Dear Ada"
    server.call("write_file", path=str(granted / "answer.txt"), content="Dear Bob")
    assert (granted / "answer.txt").read_text() == "Dear Bob"

    hidden = server.call("read_text_file", path=str(tmp_path / "diary.txt"), code=7)
    assert "ENOENT" in hidden.error["message"]
    assert "nobody's business" not in hidden.out


def test_memory_keeps_what_it_learns_in_a_folder_of_its_own(shop: Shop) -> None:
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes peat"]}
    server = shop.npm("memory", "--env", "MEMORY_FILE_PATH=config:/memory.jsonl", "--capability", "write:fs:config:/")
    server.call("create_entities", entities=[ada])
    assert server.given("read_graph") == {"entities": [ada], "relations": []}
    assert (shop.paddock.home / "data/files/server-memory/memory.jsonl").is_file()


def test_memory_that_may_write_nowhere_fails_with_what_to_grant_it(shop: Shop) -> None:
    server = shop.npm("memory")
    ada = {"name": "Ada", "entityType": "person", "observations": []}
    error = server.call("create_entities", entities=[ada], code=7).error
    assert "read-only" in error["message"]
    assert "write:fs:FOLDER" in error["hint"]


def test_sequential_thinking_thinks(shop: Shop) -> None:
    server = shop.npm("sequential-thinking")
    thought = {"thought": "One step", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    assert server.given("sequentialthinking", **thought)["thoughtHistoryLength"] == 1
