"""memory-markdown, with the test in the host's place."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.examples.places import EXAMPLES
from tests.sdk.conversation import Conversation, conversation

ROOT = EXAMPLES / "memory-markdown"
MANIFEST = yaml.safe_load((ROOT / "kaged-plugin.yaml").read_text())
PRIMARY = {
    "operator_id": "op",
    "project_id": "music",
    "agent_path": "primary",
    "session_id": "ses_1",
    "request_id": "req_1",
}
RESEARCHER = {**PRIMARY, "agent_path": "primary.subagents.researcher"}


@pytest.fixture
def started() -> Generator[Conversation, None, None]:
    with conversation(MANIFEST["command"], ROOT) as talk:
        yield talk


@pytest.fixture
def plugin(started: Conversation, tmp_path: Path) -> Conversation:
    started.greet("memory-markdown", {"store": str(tmp_path / "store")})
    return started


def retain(plugin: Conversation, content: str, context: dict[str, Any] = PRIMARY, **more: Any) -> Any:
    """Store something new; the announcement comes before the answer."""
    call = plugin.ask("memory-markdown.retain", {"content": content, "_context": context, **more})
    announced = plugin.receive()
    answer = plugin.receive()
    assert answer["id"] == call
    assert announced["method"] == "memory.retained"
    assert announced["params"] == {"id": answer["result"]["id"]}
    return answer["result"]


def recalled(plugin: Conversation, query: str, context: dict[str, Any] = PRIMARY, **more: Any) -> list[str]:
    found = plugin.call("memory-markdown.recall", {"query": query, "_context": context, **more})
    return [memory["content"] for memory in found["memories"]]


def test_the_handshake_keeps_the_manifests_promises(started: Conversation) -> None:
    answer = started.greet("memory-markdown")
    assert (answer["name"], answer["version"], answer["api_version"]) == (MANIFEST["name"], MANIFEST["version"], 1)
    assert answer["notifications"] == MANIFEST["notifications"]
    assert set(answer["capabilities_used"]) <= {item for item in MANIFEST["capabilities"] if isinstance(item, str)}


def test_what_is_retained_is_recalled_best_match_first_and_outlives_the_process(
    plugin: Conversation, tmp_path: Path
) -> None:
    retain(plugin, "The project uses bun 1.x", tags=["tooling"])
    retain(plugin, "Deploys go to the project's own servers", context=PRIMARY)
    retain(plugin, "Ünïcode survives: 猫\n---\r\nand so do rules")
    assert recalled(plugin, "which bun does the project use")[0] == "The project uses bun 1.x"
    assert recalled(plugin, "project", tags=["tooling"]) == ["The project uses bun 1.x"]
    assert recalled(plugin, "nothing like it") == []
    assert plugin.end()[0] == 0

    with conversation(MANIFEST["command"], ROOT) as later:
        later.greet("memory-markdown", {"store": str(tmp_path / "store")})
        assert recalled(later, "猫") == ["Ünïcode survives: 猫\n---\r\nand so do rules"]


def test_the_same_content_is_kept_once_and_announced_once(plugin: Conversation) -> None:
    first = retain(plugin, "Only once")
    again = plugin.call("memory-markdown.retain", {"content": "Only once", "_context": PRIMARY})
    assert (first["new"], again) == (True, {"id": first["id"], "new": False})


def test_each_agent_has_its_own_shelf_until_the_project_shares_one(plugin: Conversation, tmp_path: Path) -> None:
    retain(plugin, "for the primary agent")
    assert recalled(plugin, "primary agent", RESEARCHER) == []
    plugin.call("config.update", {"config": {"store": str(tmp_path / "shared"), "isolation": "project"}})
    retain(plugin, "for the whole project")
    assert recalled(plugin, "whole project", RESEARCHER) == ["for the whole project"]
    assert recalled(plugin, "whole project", {**PRIMARY, "project_id": "homelab"}) == []


def test_names_that_look_like_paths_stay_inside_the_store(plugin: Conversation, tmp_path: Path) -> None:
    retain(plugin, "contained", {**PRIMARY, "project_id": "../../outside", "agent_path": "/etc/x\0y"})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 1 and files[0].is_relative_to(tmp_path / "store")


def test_a_session_starts_with_the_newest_memories_and_with_none_when_there_are_none(
    plugin: Conversation, tmp_path: Path
) -> None:
    assert plugin.call("kaged.hook.on_session_start", {"_context": PRIMARY}) is None
    retain(plugin, "Prefers strict mode\nand a second line")
    injected = plugin.call("kaged.hook.on_session_start", {"_context": PRIMARY})["inject"]
    assert injected.endswith("- Prefers strict mode")
    assert plugin.call("kaged.hook.post_compact", {"_context": PRIMARY})["inject"] == injected
    plugin.call("config.update", {"config": {"store": str(tmp_path / "store"), "inject_count": 0}})
    assert plugin.call("kaged.hook.on_session_start", {"_context": PRIMARY}) is None


def test_what_somebody_asked_to_remember_is_kept_when_the_session_idles_or_is_compacted(plugin: Conversation) -> None:
    said = [
        {"role": "user", "content": "Hello.\nPlease remember that we deploy on Fridays"},
        {"role": "assistant", "content": "remember: I am not a person"},
        {"role": "user", "content": "do you remember me?"},
    ]
    idle = plugin.ask("kaged.hook.on_session_idle", {"_context": PRIMARY, "transcript": said})
    assert plugin.receive()["method"] == "memory.retained"
    assert plugin.receive() == {"jsonrpc": "2.0", "id": idle, "result": None}
    assert plugin.call("kaged.hook.on_session_idle", {"_context": PRIMARY, "transcript": said}) is None

    compacted = {"_context": PRIMARY, "role": "observer", "messages_being_compacted": said, "messages_remaining": []}
    assert plugin.call("kaged.hook.pre_compact", compacted) == {"retain": ["we deploy on Fridays"]}
    assert recalled(plugin, "Fridays") == ["we deploy on Fridays"]
    assert plugin.call("kaged.hook.on_session_idle", {"_context": PRIMARY, "transcript": "odd"}) is None


def test_a_configuration_that_makes_no_sense_is_refused_and_the_old_one_stays(plugin: Conversation) -> None:
    retain(plugin, "still here")
    for config in ({}, {"store": "config:/memory"}, {"store": 5}, {"store": "/x", "isolation": "planet"}):
        assert plugin.error("config.update", {"config": config})["code"] == -32004
    assert recalled(plugin, "still here") == ["still here"]


def test_a_call_without_a_configuration_or_without_an_agent_is_not_applicable(started: Conversation) -> None:
    started.greet("memory-markdown")
    assert started.error("memory-markdown.recall", {"query": "x y", "_context": PRIMARY})["code"] == -32006
    started.call("config.update", {"config": {"store": "/nonexistent"}})
    assert started.error("memory-markdown.recall", {"query": "x y"})["code"] == -32006
    assert recalled(started, "anything") == []


def test_wrong_parameters_are_refused(plugin: Conversation) -> None:
    for params in ({}, {"content": "  "}, {"content": 5}, {"content": "x", "tags": "y"}):
        assert plugin.error("memory-markdown.retain", {**params, "_context": PRIMARY})["code"] == -32602


def test_a_file_that_somebody_spoilt_is_passed_over_and_the_others_are_found(
    plugin: Conversation, tmp_path: Path
) -> None:
    retain(plugin, "a sound memory")
    (shelf,) = (tmp_path / "store").iterdir()
    (shelf / "empty.md").write_text("")
    (shelf / "binary.md").write_bytes(b"\xff\xfe")
    (shelf / "headless.md").write_text("a sound memory, but no head")
    (shelf / "folder.md").mkdir()
    assert recalled(plugin, "sound memory") == ["a sound memory"]


def test_a_write_that_fails_leaves_no_half_file_and_is_said(plugin: Conversation, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the directory should be")
    assert plugin.error("memory-markdown.retain", {"content": "x", "_context": PRIMARY})["code"] == -32603
    assert [path.name for path in tmp_path.rglob("*")] == ["store"]


def test_nothing_of_a_write_is_left_beside_its_place(plugin: Conversation, tmp_path: Path) -> None:
    retain(plugin, "whole or not at all")
    (shelf,) = (tmp_path / "store").iterdir()
    assert [path.suffix for path in shelf.iterdir()] == [".md"]


def test_it_lives_and_ends_as_the_host_asks(plugin: Conversation) -> None:
    assert plugin.call("ping") == {"status": "ok"}
    plugin.tell("projects.activated", {"project": "music", "config": {}})
    plugin.tell("projects.deactivated", {"project": "music"})
    plugin.tell("shutdown")
    assert plugin.ended() == (0, [])


@pytest.mark.parametrize("answers", [0, 1, 7, 40])
def test_a_kill_at_any_moment_leaves_whole_memories_and_every_one_that_was_answered(
    plugin: Conversation, tmp_path: Path, answers: int
) -> None:
    for number in range(60):
        plugin.ask("memory-markdown.retain", {"content": f"fact {number} " + "x" * 5000, "_context": PRIMARY})
    said = [plugin.receive() for _ in range(2 * answers)]
    plugin.process.kill()
    plugin.process.wait()

    kept = {path.stem: path.read_text() for path in (tmp_path / "store").rglob("*.md")}
    assert {message["result"]["id"] for message in said if "result" in message} <= set(kept)
    assert all(text.endswith("x" * 5000 + "\n") for text in kept.values())
