"""What a caller may rely on whatever a plugin is written in and wherever it runs, as sentences.

A runtime joins by subclassing `RuntimeContract` in a test file and putting a plugin on the stage that has these tools:

- `echo` says the `text` it was given, `fail` fails with words that have "broke" in them,
- `slow` tells of progress 1, 2 and 3 of 3 and then says "done",
- `hang` logs "hang began", never ends, and logs "hang was stopped" when it is stopped,
- `crash` ends the process or server with exit status 3, `big` says five million letters.

Where an honest runtime differs, the difference is a sentence of its own: see `KnowsTheBound`, `OneAtATime` and
`ProcessPerCall`. The runtimes are in `test_contract.py`, `test_contract_of_functions.py`, `test_contract_of_sdks.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest
from tests.runtime.stage import Actor, Stage, patiently

from paddock.core.errors import PluginError, TimedOut, Unavailable
from paddock.core.events.contracts import OversizeMessage, PluginStopped
from paddock.core.events.plugin_runtime import PluginInitialized, PluginKilled
from paddock.runtime.calls import OnEvent
from paddock.runtime.lifecycle import PluginState


class Player(Protocol):
    """A plugin on the stage."""

    @property
    def actor(self) -> Actor: ...

    async def said(
        self,
        name: str,
        payload: dict[str, Any] | None = None,
        *,
        timeout_sec: int | None = None,
        on_event: OnEvent | None = None,
    ) -> str:
        """What a tool says."""
        ...

    async def logged(self, words: str) -> None:
        """Wait until it wrote these words to its log."""
        ...


class RuntimeContract:
    """The sentences."""

    def playing(self, stage: Stage) -> AbstractAsyncContextManager[Player]:
        raise NotImplementedError

    @pytest.fixture
    async def player(self, stage: Stage):
        async with self.playing(stage) as player:
            assert (await player.actor.settled()).state is PluginState.RUNNING
            yield player

    async def test_a_call_gives_what_the_tool_says(self, player: Player) -> None:
        assert await player.said("echo", {"text": "grüße, \u2028 and more"}) == "grüße, \u2028 and more"

    async def test_sixty_four_calls_at_once_each_get_their_own_answer(self, player: Player) -> None:
        words = [str(number) for number in range(64)]
        assert await asyncio.gather(*(player.said("echo", {"text": word}) for word in words)) == words
        assert player.actor.status.in_flight == 0

    async def test_a_tool_that_fails_says_why_and_harms_nobody(self, player: Player) -> None:
        with pytest.raises(PluginError, match="broke"):
            await player.said("fail")
        assert await player.said("echo", {"text": "still here"}) == "still here"
        assert starts(player) == 1

    async def test_progress_reaches_the_caller_in_order_and_before_the_answer(self, player: Player) -> None:
        events: list[Any] = []
        assert await player.said("slow", on_event=events.append) == "done"
        assert [(event["type"], event["progress"], event["total"]) for event in events] == [
            ("progress", step, 3) for step in (1, 2, 3)
        ]

    async def test_a_call_that_takes_too_long_is_given_up_and_the_tool_is_stopped(self, player: Player) -> None:
        with pytest.raises(TimedOut) as late:
            await player.said("hang", timeout_sec=1)
        assert late.value.details["timeout_sec"] == 1
        await player.logged("hang was stopped")
        assert await player.said("echo", {"text": "next"}) == "next"
        assert starts(player) == 1

    async def test_a_cancelled_call_is_stopped_and_others_do_not_notice(self, player: Player) -> None:
        hanging = await begun(player)
        assert await player.said("echo", {"text": "meanwhile"}) == "meanwhile"
        hanging.cancel()
        await player.logged("hang was stopped")
        assert await player.said("echo", {"text": "afterwards"}) == "afterwards"
        assert hanging.cancelled() and starts(player) == 1

    async def test_when_it_crashes_calls_under_way_fail_and_it_is_started_again(self, player: Player) -> None:
        hanging = await begun(player)
        assert await player.said("echo", {"text": "well"}) == "well"
        with pytest.raises(Unavailable):
            await player.said("crash")
        with pytest.raises(Unavailable):
            await hanging
        await started_again(player)
        assert await player.said("echo", {"text": "back"}) == "back"
        assert starts(player) == 2

    async def test_an_answer_beyond_every_bound_ends_the_plugin_and_not_the_host(self, player: Player) -> None:
        with pytest.raises(Unavailable):
            await player.said("big")
        assert await player.actor.stage.audience.event(OversizeMessage)
        await started_again(player)
        assert await player.said("echo", {"text": "back"}) == "back"

    async def test_it_ends_by_itself_when_it_is_asked_to(self, player: Player) -> None:
        stage = player.actor.stage
        await patiently(stage.supervisor.stop(player.actor.key))
        assert stage.audience.of(PluginStopped) and not stage.audience.of(PluginKilled)
        assert await player.said("echo", {"text": "a call starts it"}) == "a call starts it"


class KnowsTheBound(RuntimeContract):
    """Where who sends an answer is ours."""

    test_an_answer_beyond_every_bound_ends_the_plugin_and_not_the_host = None  # pyright: ignore[reportAssignmentType]

    async def test_an_answer_beyond_every_bound_is_not_sent_and_fails_its_call_alone(self, player: Player) -> None:
        with pytest.raises(PluginError):
            await player.said("big")
        assert await player.said("echo", {"text": "still here"}) == "still here"
        assert starts(player) == 1


class OneAtATime(KnowsTheBound):
    """Where a plugin works on one call after the other."""

    test_a_cancelled_call_is_stopped_and_others_do_not_notice = None  # pyright: ignore[reportAssignmentType]
    test_when_it_crashes_calls_under_way_fail_and_it_is_started_again = None  # pyright: ignore[reportAssignmentType]

    async def test_calls_wait_for_the_one_that_is_worked_on_until_it_is_cancelled_and_stopped(
        self, player: Player
    ) -> None:
        hanging = await begun(player)
        waiting = asyncio.ensure_future(player.said("echo", {"text": "meanwhile"}))
        await asyncio.wait({waiting}, timeout=0.2)  # as long as an answer could take
        assert not waiting.done()
        hanging.cancel()
        assert await waiting == "meanwhile"
        await player.logged("hang was stopped")
        assert hanging.cancelled() and starts(player) == 1

    async def test_when_it_crashes_calls_that_wait_fail_too_and_it_is_started_again(self, player: Player) -> None:
        calls = asyncio.gather(player.said("crash"), player.said("echo", {"text": "well"}), return_exceptions=True)
        assert [type(failed) for failed in await calls] == [Unavailable, Unavailable]
        await started_again(player)
        assert await player.said("echo", {"text": "back"}) == "back"
        assert starts(player) == 2


class ProcessPerCall(KnowsTheBound):
    """Where each call has a process of its own."""

    test_when_it_crashes_calls_under_way_fail_and_it_is_started_again = None  # pyright: ignore[reportAssignmentType]

    async def test_when_one_call_crashes_it_fails_alone_and_nothing_is_started_again(self, player: Player) -> None:
        hanging = await begun(player)
        with pytest.raises(Unavailable):
            await player.said("crash")
        assert await player.said("echo", {"text": "well"}) == "well"
        assert not hanging.done() and starts(player) == 1
        hanging.cancel()
        await player.logged("hang was stopped")


async def begun(player: Player) -> asyncio.Future[str]:
    """A call that hangs, once the tool works on it."""
    hanging = asyncio.ensure_future(player.said("hang"))
    await player.logged("hang began")
    return hanging


async def started_again(player: Player) -> None:
    await player.actor.stage.audience.event(PluginInitialized, 2)
    await player.actor.until(PluginState.RUNNING)


def starts(player: Player) -> int:
    return len(player.actor.stage.audience.of(PluginInitialized))
