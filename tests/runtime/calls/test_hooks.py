"""Hooks at the wire: one at a time for each plugin, and whatever goes wrong counts as no answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.runtime.stage import Actor, Stage, patiently

from paddock.core.call import CallContext
from paddock.core.events.plugin_runtime import PluginHookFailed, PluginHookFired, PluginHookReturned, PluginHookTimeout
from paddock.core.ids import AgentPath, ProjectId, SessionId
from paddock.runtime.lifecycle import PluginState

HOOKS: dict[str, Any] = {"hooks": ["on_session_start", "pre_compact"], "roles": ["observer"]}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


def session(stage: Stage) -> CallContext:
    return stage.context(project=ProjectId("music"), agent_path=AgentPath("primary"), session=SessionId("ses_1"))


async def fire(actor: Actor, hook: str = "on_session_start", **params: Any) -> Any:
    return await patiently(actor.stage.supervisor.fire(actor.key, hook, params, session(actor.stage)))


@pytest.mark.req("G-29", "plugin.hook.fired")
@pytest.mark.req("G-29", "plugin.hook.returned")
async def test_a_hook_arrives_under_its_name_with_its_context_and_its_answer_comes_back(stage: Stage) -> None:
    actor = stage.actor("hello()\nserve(paddock_hook_on_session_start=lambda r: {'inject': 'hi', 'got': r})", **HOOKS)
    answer = await fire(actor, extra=1)
    assert answer["inject"] == "hi"
    assert answer["got"]["method"] == "paddock.hook.on_session_start"
    assert answer["got"]["params"]["extra"] == 1
    assert answer["got"]["params"]["_context"]["session_id"] == "ses_1"
    fired = await stage.audience.event(PluginHookFired)
    assert (fired.name, fired.hook, fired.agent_path, fired.session_id) == (
        "actor",
        "on_session_start",
        "primary",
        "ses_1",
    )
    returned = await stage.audience.event(PluginHookReturned)
    assert returned.has_result
    assert returned.duration_ms > 0


async def test_a_hook_without_an_answer_is_nothing_and_one_that_was_not_subscribed_never_fires(stage: Stage) -> None:
    actor = stage.actor(
        "hello()\nnothing = lambda r: answer(r, None)\nserve(paddock_hook_on_session_start=nothing)",
        **HOOKS,
    )
    assert await fire(actor) is None
    assert not (await stage.audience.event(PluginHookReturned)).has_result
    assert await fire(actor, "post_compact") is None
    assert len(stage.audience.of(PluginHookFired)) == 1


@pytest.mark.req("G-45", "one at a time per plugin")
async def test_hooks_of_one_plugin_run_one_after_another(stage: Stage) -> None:
    # Answers with what lies unread in its pipe: nothing, when the second hook waits for the first.
    actor = stage.actor(
        """
import select
hello()
def look(request):
    waiting, _, _ = select.select([sys.stdin], [], [], 0.2)
    return {"another_waits": bool(waiting)}
serve(paddock_hook_on_session_start=look)
""",
        **HOOKS,
    )
    await actor.settled()
    answers = await asyncio.gather(*(fire(actor) for _ in range(4)))
    assert answers == [{"another_waits": False}] * 4


@pytest.mark.req("G-45", "timeout counts as no answer")
@pytest.mark.req("G-29", "plugin.hook.timeout")
async def test_a_hook_that_takes_too_long_counts_as_no_answer_and_the_plugin_lives_on(stage: Stage) -> None:
    actor = stage.actor("hello()\nserve(paddock_hook_on_session_start=lambda r: None)", **HOOKS)
    assert await fire(actor) is None
    timeout = await stage.audience.event(PluginHookTimeout)
    assert (timeout.hook, timeout.timeout_sec, timeout.agent_path) == ("on_session_start", 10.0, "primary")
    assert actor.status.state is PluginState.RUNNING


@pytest.mark.req("G-45", "failure counts as no answer")
@pytest.mark.req("G-29", "plugin.hook.failed")
async def test_a_hook_that_answers_with_an_error_or_dies_counts_as_no_answer(stage: Stage) -> None:
    actor = stage.actor(
        "hello()\nserve(paddock_hook_on_session_start=lambda r: refuse(r, -32000, 'broken'),"
        " paddock_hook_pre_compact=lambda r: os._exit(1))",
        **HOOKS,
    )
    assert await fire(actor) is None
    failed = await stage.audience.event(PluginHookFailed)
    assert (failed.error_code, failed.error_message) == (-32000, "broken")
    assert await fire(actor, "pre_compact") is None
    assert (await stage.audience.event(PluginHookFailed, 2)).hook == "pre_compact"


async def test_a_plugin_that_cannot_run_answers_no_hook_and_stalls_no_session(stage: Stage) -> None:
    actor = stage.actor("sys.exit(1)", **HOOKS)
    await actor.until(PluginState.FAILED)
    assert await fire(actor) is None
    assert (await stage.audience.event(PluginHookFailed)).hook == "on_session_start"
