"""A plugin that never answers the handshake."""

from __future__ import annotations

import pytest
from tests.fixtures.hurried_loop import hurried
from tests.runtime.stage import Stage

from paddock.core.events.contracts import PluginInitializeTimeout
from paddock.core.events.plugin_runtime import PluginSpawned
from paddock.runtime.lifecycle import PluginState


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return hurried()


@pytest.mark.req("G-03", "timeout")
@pytest.mark.req("G-29", "plugin.initialize_timeout")
@pytest.mark.req("G-31", "handshake timeout")
async def test_a_plugin_that_is_silent_is_ended_after_ten_seconds_and_not_restarted(stage: Stage) -> None:
    actor = stage.actor("while True: read()")
    status = await actor.until(PluginState.FAILED)
    assert status.error_code == "initialize.timeout"
    assert "10 s" in status.reason
    assert stage.audience.of(PluginInitializeTimeout) == [PluginInitializeTimeout(name="actor", timeout_sec=10.0)]
    assert len(stage.audience.of(PluginSpawned)) == 1


async def test_what_a_silent_plugin_wrote_to_its_log_tells_why_it_is_silent(stage: Stage) -> None:
    actor = stage.actor(
        "sys.stderr.write('bash: line 3: jq: command not found\\n'); sys.stderr.flush()\nread()\nread()"
    )
    status = await actor.until(PluginState.FAILED)
    assert "10 s" in status.reason
    assert "jq" in status.reason
    assert "exec:jq:/" in status.hint
