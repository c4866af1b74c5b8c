"""What rules see of the circumstances of a call: whether nobody waits for it, its project, and its agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.recovery.test_recovering import count, known, with_plugin
from tests.gate.test_governed_calls import ANN, Office, held, made_by, outcome

from paddock.core.errors import Busy, Denied, NeedsApproval, PaddockError
from paddock.core.ids import DEFAULT_TENANT, AgentPath, ProjectId, SessionId
from paddock.host.host import Host

NOT_IN_THE_BACKGROUND = (
    '@id("not-in-the-background") @text("Somebody has to wait for it.")\n'
    'forbid (principal, action in Action::"anyCall", resource == Callable::"mail.send") when { context.background };'
)
ONLY_IN_THE_BACKGROUND = (
    '@id("for-recovery-alone") @text("It is for recovery alone.")\n'
    'forbid (principal, action in Action::"anyCall", resource == Callable::"counter.counted")\n'
    "unless { context.background };"
)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


class OfficeOnPostgres(Office):
    """Its work is done by the job engine."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self._address = address

    @asynccontextmanager
    async def open(self, version: str = "1.0.0", **environ: str) -> AsyncGenerator[Host, None]:
        async with super().open(version, PADDOCK_STORE_URL=self._address, **environ) as host:
            yield host


@pytest.fixture(params=["sqlite", "postgresql"])
def on_each_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Office:
    if request.param == "sqlite":
        return Office(tmp_path)
    return OfficeOnPostgres(tmp_path, request.getfixturevalue("postgres_address"))


async def test_a_probe_is_made_in_the_background(on_each_engine: Office) -> None:
    on_each_engine.rule(ONLY_IN_THE_BACKGROUND)
    found: dict[str, Any] = {"happened": True, "result": {"done": 1}}
    functions = {"count": lambda: on_each_engine.do("count"), "counted": lambda idempotency_key, params: found}  # noqa: ARG005
    async with with_plugin(on_each_engine, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        with pytest.raises(Denied, match="for recovery alone"):
            await host.call("counter.counted", {"idempotency_key": "k1", "params": {}}, context=made_by(ANN))
        assert await known(host) == {"done": 1}


async def test_a_call_that_is_made_again_under_its_key_is_made_in_the_background(on_each_engine: Office) -> None:
    rule = ONLY_IN_THE_BACKGROUND.replace("counter.counted", "counter.count").replace("unless", "when")
    on_each_engine.rule(rule)
    answers = [{"wrong": True}, {"done": 1}]
    async with with_plugin(
        on_each_engine, {"count": lambda: answers.pop(0), "counted": dict}, recovery="native_key"
    ) as host:
        with pytest.raises(PaddockError):
            await count(host)
        with pytest.raises(PaddockError) as doubt:
            await count(host)
    assert doubt.value.error_code == "effect.in_doubt"
    assert answers == [{"done": 1}], "the policy forbids it to who does not wait"


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_call_that_goes_on_is_in_the_background_only_if_it_was_made_there(
    office: Office, restarted: bool
) -> None:
    async with office.open() as host:
        waits = await held(host)
        with pytest.raises(NeedsApproval) as detached:
            await host.call("mail.send", {"to": "eve"}, context=made_by(ANN, background=True))
        office.rule(NOT_IN_THE_BACKGROUND)
        if not restarted:
            await host.policy.active.reload_if_changed()
            ended = [await approved(host, one) for one in (waits, detached.value.details)]
    if restarted:
        async with office.open() as host:
            ended = [await approved(host, one) for one in (waits, detached.value.details)]

    assert [one["status"] for one in ended] == ["succeeded", "failed"]
    assert ended[1]["error"]["code"] == "policy_denied"
    assert office.done == ["bob"]


async def approved(host: Host, waits: Mapping[str, Any]) -> Any:
    await host.approvals.approve(waits["approval"], ANN)
    return await outcome(host, waits["call_id"])


async def test_dry_runs_count_among_the_calls_that_somebody_may_make(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_CALLS_PER_PRINCIPAL="1") as host:
        access = host.calls.callable_access
        target = access.catalogue(DEFAULT_TENANT).find_callable("mail", "look")
        assert (await access.dry_run(target, {}, made_by(ANN))).would == "run"
        with pytest.raises(Busy):
            await access.dry_run(target, {}, made_by(ANN))


@pytest.mark.parametrize(
    ("condition", "circumstances"),
    [
        ('context has project && context.project == "music"', {"project": ProjectId("music")}),
        ('context has agent_path && context.agent_path == "primary"', {"agent_path": AgentPath("primary")}),
    ],
)
async def test_a_decision_counts_for_its_own_circumstances_alone(
    office: Office, condition: str, circumstances: dict[str, Any]
) -> None:
    where = f'resource == Callable::"mail.look") when {{ {condition} }};'
    office.rule(f'@id("not-there") @text("Not there.")\nforbid (principal, action in Action::"anyCall", {where}')
    run: dict[str, Any] = {"project": ProjectId("art"), "agent_path": AgentPath("other"), "session": SessionId("ses_1")}
    async with office.open() as host:
        for _ in range(2):
            assert await host.call("mail.look", {}, context=made_by(ANN, **run))
            with pytest.raises(Denied, match="Not there"):
                await host.call("mail.look", {}, context=made_by(ANN, **run | circumstances))
