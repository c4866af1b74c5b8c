"""An agent keeps nothing: each of its calls runs in a process of its own, where the plugin is loaded anew."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import PATIENCE, Conversation
from tests.sdk.workers import kernel

COUNTER = """
import json, os, random, sys
calls = 0
kept = []

def run(call):
    global calls
    calls += 1
    kept.append(call)
    os.environ["COUNTED"] = os.environ.get("COUNTED", "") + "x"
    sys.counted = getattr(sys, "counted", 0) + 1
    json.counted = getattr(json, "counted", 0) + 1
    try:
        with open(call["scratch"], "a") as file:
            file.write("x")
        wrote = True
    except OSError:
        wrote = False
    return {"calls": calls, "kept": len(kept), "environ": os.environ["COUNTED"], "sys": sys.counted,
            "json": json.counted, "wrote": wrote, "random": random.random(), "pid": os.getpid()}
"""


@pytest.mark.req("K-23", "agent")
def test_a_planted_counter_never_survives_a_call(tmp_path: Path) -> None:
    with kernel(tmp_path, COUNTER, "agent") as agent:
        answers = [agent.call({"scratch": str(tmp_path / "counter")}) for _ in range(3)]
    for answer in answers:
        assert (answer["calls"], answer["kept"], answer["environ"], answer["sys"], answer["json"]) == (1, 1, "x", 1, 1)
        assert answer["wrote"] is False
    assert len({answer["pid"] for answer in answers}) == 3
    assert len({answer["random"] for answer in answers}) == 3  # nor is what it calls random always the same


def test_a_tool_is_not_forked_and_keeps_its_process(tmp_path: Path) -> None:
    code = "import os\ndef run(call):\n    return os.getpid()"
    with kernel(tmp_path, code, "tool") as tool:
        assert tool.call()["result"] == tool.call()["result"] == tool.wire.process.pid


ASKING = """
import os, signal, time

def run(call, host):
    how = call["how"]
    if how == "ask":
        return {"value": host.cache.get(call["key"]).wait()}
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leave":
        os._exit(3)
    if how == "raise":
        raise ValueError("no")
    if how == "shout":
        return shout(call["line"])
    if how == "stream":
        return steps(call)
    time.sleep(600)

def steps(call):
    for number in range(3):
        yield {"number": number}
    return {"done": True}

def shout(line):
    for number in range(3, 16):
        try:
            os.write(number, line.encode())
        except OSError:
            pass
    return {"shouted": True}
"""


def cache(method: str, params: dict[str, Any]) -> Any:
    return {"value": params["key"].upper()}


def eventually(claim: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not claim() and time.monotonic() < end:
        time.sleep(0.01)
    return claim()


def test_forks_ask_the_host_each_on_behalf_of_its_own_call(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent", cache, capabilities=["host:cache"]) as agent:
        calls = {agent.begin({"how": "ask", "key": key}, token=f"call-{key}"): key for key in "abcd"}
        questions = [agent.wire.receive() for _ in calls]
        assert len({question["id"] for question in questions}) == 4
        assert {(one["params"]["key"], one["params"]["_call"]) for one in questions} == {
            (key, f"call-{key}") for key in "abcd"
        }
        for question in reversed(questions):
            agent.reply(question)
        for _ in calls:
            answer = agent.wire.receive()
            assert answer["result"] == {"value": calls[answer["id"]].upper()}


def test_pings_are_answered_and_a_cancelled_fork_is_ended_while_others_run(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent", cache) as agent:
        stuck = agent.begin({"how": "sleep"})
        for _ in range(3):
            assert agent.wire.call("ping") == {"status": "ok"}
        assert agent.call({"how": "ask", "key": "k"}) == {"value": "K"}
        agent.wire.tell("paddock.cancel", {"id": stuck})
        assert agent.until_answered(stuck)["error"] == {"code": -32000, "message": "cancelled"}
        agent.wire.tell("shutdown")
        assert agent.wire.process.wait(PATIENCE) == 0  # no fork is left to wait for


@pytest.mark.parametrize(
    ("how", "told"),
    [("die", "was ended by signal 9"), ("leave", "ended with 3"), ("raise", "the plugin failed (ValueError)")],
)
def test_a_fork_that_dies_costs_only_its_own_call(tmp_path: Path, how: str, told: str) -> None:
    with kernel(tmp_path, ASKING, "agent", cache) as agent:
        beside = agent.begin({"how": "ask", "key": "k"})
        question = agent.wire.receive()
        error = agent.failure({"how": how})
        assert error["code"] == -32603 and told in error["message"]
        agent.reply(question)
        assert agent.until_answered(beside)["result"] == {"value": "K"}


def children(wire: Conversation) -> list[int]:
    """The processes of a worker: first the one that makes the others."""
    pid = wire.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_next_process_is_loaded_before_its_call_comes_and_never_while_another_call_runs(tmp_path: Path) -> None:
    code = """
    print('"loaded"')
    def run(call, host):
        host.cache.get("k").wait()
        print('"over"')
    """
    with kernel(tmp_path, code, "agent", cache) as agent:
        call = agent.begin()
        question = agent.wire.receive()
        assert len(children(agent.wire)) == 2
        agent.reply(question)
        agent.until_answered(call)
        log = agent.wire.process.stderr
        assert log
        assert [log.readline().strip() for _ in range(3)] == [b'"loaded"', b'"over"', b'"loaded"']


def test_one_that_only_waits_for_the_next_call_keeps_nobody_from_going(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent", cache) as agent:
        assert agent.wire.call("ping") == {"status": "ok"}
        agent.wire.tell("shutdown")
        assert agent.wire.process.wait(PATIENCE) == 0


def test_a_process_that_dies_while_it_waits_costs_no_call(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent", cache) as agent:
        _nursery, idle = children(agent.wire)
        os.kill(idle, signal.SIGKILL)
        assert eventually(lambda: len(children(agent.wire)) == 1)
        assert agent.call({"how": "ask", "key": "k"}) == {"value": "K"}


def test_a_call_cannot_speak_for_another_one(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent", cache) as agent:
        beside = agent.begin({"how": "ask", "key": "k"})
        question = agent.wire.receive()
        for claim in (f'"id":{beside},"result":1', f'"method":"paddock.event","params":{{"id":{beside},"event":{{}}}}'):
            shouted = agent.call({"how": "shout", "line": f'{{"jsonrpc":"2.0",{claim}}}\n'})
            assert (shouted, agent.events) == ({"shouted": True}, [])
        agent.reply(question)
        assert agent.until_answered(beside)["result"] == {"value": "K"}
        assert agent.events == []


def test_more_calls_than_forks_wait_for_their_turn_and_can_be_cancelled_there(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent", cache) as agent:
        calls = [agent.begin({"how": "ask", "key": "k"}) for _ in range(12)]
        waiting = agent.begin({"how": "ask", "key": "k"})
        questions = [agent.wire.receive() for _ in range(8)]
        agent.wire.tell("paddock.cancel", {"id": waiting})
        assert agent.wire.receive() == {
            "jsonrpc": "2.0",
            "id": waiting,
            "error": {"code": -32000, "message": "cancelled"},
        }
        assert agent.wire.call("ping") == {"status": "ok"}
        answered: list[int] = []
        for question in questions:
            agent.reply(question)
        while len(answered) < len(calls):
            said = agent.wire.receive()
            if "method" in said:
                agent.reply(said)
            else:
                answered.append(said["id"])
        assert sorted(answered) == calls


def test_the_steps_of_a_fork_reach_whoever_waits(tmp_path: Path) -> None:
    with kernel(tmp_path, ASKING, "agent") as agent:
        assert agent.call({"how": "stream"}) == {"done": True}
        assert [event["data"]["number"] for event in agent.events] == [0, 1, 2]


def test_large_answers_pass_both_ways_between_a_fork_and_the_host(tmp_path: Path) -> None:
    large = "x" * 3_000_000

    def big(method: str, params: dict[str, Any]) -> Any:
        return {"value": large}

    with kernel(tmp_path, ASKING, "agent", big) as agent:
        assert agent.call({"how": "ask", "key": "k"}) == {"value": large}
        agent.wire.send_bytes(
            b'{"jsonrpc":"2.0","id":"large","method":"worker.call","params":{"callable":"it","payload":{"how":"leave",'
            b'"with":"' + "é".encode() * 2_000_000 + b'"}}}\n'
        )
        assert "ended with 3" in agent.wire.receive()["error"]["message"]


def test_an_agent_that_uses_asyncio_has_a_loop_of_its_own_in_every_call(tmp_path: Path) -> None:
    code = """
    import asyncio
    lock = asyncio.Lock()
    calls = 0
    async def run(call, host):
        global calls
        async with lock:
            first, second = await asyncio.gather(host.cache.get("a"), host.cache.get("b"))
            await asyncio.sleep(0.001)
        calls += 1
        return {"got": [first, second], "calls": calls}
    """
    with kernel(tmp_path, code, "agent", cache, capabilities=["host:cache"]) as agent:
        for _ in range(2):
            assert agent.call() == {"got": ["A", "B"], "calls": 1}


def test_calls_under_way_are_answered_when_the_pipe_is_closed(tmp_path: Path) -> None:
    code = "import os\ndef run(call):\n    return call['n']"
    with kernel(tmp_path, code, "agent") as agent:
        calls = [agent.begin({"n": number}) for number in range(10)]
        assert agent.wire.process.stdin
        agent.wire.process.stdin.close()
        assert sorted(agent.wire.receive()["id"] for _ in calls) == calls
        assert agent.wire.ended()[0] == 0
