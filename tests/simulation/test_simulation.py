"""Histories of a whole host, each made from one number: nothing happens twice, nothing is lost, whatever dies when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.disk import Disk
from tests.simulation.world import History, Rigging, simulate

from paddock.core.errors import PaddockError
from paddock.gate.effects.coordinator import OutcomeWaiter
from paddock.gate.effects.starter import CallStarter
from paddock.gate.gate import Gate
from paddock.gate.idempotency import records
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.gate.invocation import Invocation
from paddock.host.wiring.gate import build_gate
from paddock.runtime.supervisor import Supervisor
from paddock.store.transaction import Transaction

ROOT = Path(__file__).parents[2]
FEW, MANY = 8, 100  # seeds of one test
FAILING_DISK = 36  # a seed whose disk fails while somebody calls
CAUGHT_WITHIN = 200  # seeds; which of them finds it out moves with every change of what is written when


def sound(seed: int) -> History:
    """The history of a seed, in which every promise was kept."""
    history = simulate(seed)
    if history.broken:
        told = "\n".join([*history.broken, *history.trace[-40:]])
        pytest.fail(f"seed {seed}: {told}\n\nsee it again: .venv/bin/python -m tests.simulation {seed}", pytrace=False)
    return history


@pytest.mark.parametrize("first", range(0, 5 * FEW, FEW))
def test_whatever_dies_when_each_effect_happens_once_and_is_accounted_for(first: int) -> None:
    histories = [sound(seed) for seed in range(first, first + FEW)]
    # And something did happen: hosts came back, and people got what they asked for.
    assert sum(history.lives for history in histories) > 2 * FEW
    assert sum(history.acts for history in histories) > FEW
    assert sum(history.successes for history in histories) > FEW


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 4_000, MANY))
def test_whatever_dies_when_each_effect_happens_once_in_thousands_of_histories(first: int) -> None:
    for seed in range(first, first + MANY):
        sound(seed)


def test_a_seed_tells_the_same_history_each_time_and_in_each_process() -> None:
    here, again = simulate(7), simulate(7)
    command = [sys.executable, "-m", "tests.simulation", "7"]
    environ = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    elsewhere = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True, timeout=120)

    assert len(here.trace) > 50
    assert here.trace == again.trace
    assert elsewhere.stdout.splitlines()[:-1] == list(here.trace)
    assert elsewhere.stdout.splitlines()[-1].endswith(here.digest)
    assert simulate(8).digest != here.digest


def test_a_seed_tells_the_same_history_after_the_machine_itself_ran_out_of_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = simulate(FAILING_DISK)
    turn = Disk._turn

    with Path("/dev/full").open("wb", buffering=0) as full:

        def turn_after_error(disk: Disk, code: int) -> None:
            with pytest.raises(OSError, match="No space left"):
                full.write(b"x")
            turn(disk, code)

        monkeypatch.setattr(Disk, "_turn", turn_after_error)
        again = simulate(FAILING_DISK)

    assert any("store.unavailable" in line for line in expected.trace)  # errno could have made it "store.full"
    assert again.trace == expected.trace


# --- hosts that are wrong, to see that they are found out -------------------------------------------------------------


def acts_before_it_records(supervisor: Supervisor, **parts: Any) -> Gate:
    gate = build_gate(supervisor, **parts)

    class ActsFirst(CallStarter, frozen=True):
        async def record_start(self, invocation: Invocation) -> None:
            target, context = invocation.target, invocation.context
            invocation.context = type(context)(
                context.principal, context.request, idempotency_key=invocation.effect_key.key, fence=1
            )
            await supervisor.call(target.key, target.spec, invocation.payload, invocation.context)
            invocation.context = context
            await super().record_start(invocation)

    gate.starter = ActsFirst(*[getattr(gate.starter, name) for name in CallStarter.__struct_fields__])
    return gate


def never_looks_back(supervisor: Supervisor, **parts: Any) -> Gate:
    gate = build_gate(supervisor, **parts)
    parts["node"]._on_lease_ended.remove(gate.starter.effects.in_doubt.mark_abandoned)
    return gate


def gives_everybody_the_first_answer(supervisor: Supervisor, **parts: Any) -> Gate:
    gate, kept = build_gate(supervisor, **parts), dict[str, Any]()
    effects = gate.starter.effects
    claim = effects.claim

    async def claimed(course: Invocation, outcomes: OutcomeWaiter) -> Any:
        try:
            replayed = await claim(course, outcomes)
        except PaddockError:
            if "any" in kept:
                return kept["any"]
            raise
        return kept.setdefault("any", replayed) if replayed is not None else None

    effects.claim = claimed  # pyright: ignore[reportAttributeAccessIssue]
    return gate


WRONG: dict[str, tuple[Rigging, tuple[str, ...]]] = {
    "acts before it records": (Rigging(gate_of=acts_before_it_records), ("not on record",)),
    "never looks back": (Rigging(gate_of=never_looks_back), ("of a host that is gone is still started",)),
    "answers before it is on the disk": (
        Rigging(synchronous="NORMAL"),
        ("not on record", "nothing is on record", "and has happened", "is not kept"),
    ),
    "gives everybody the first answer": (
        Rigging(gate_of=gives_everybody_the_first_answer),
        ("was told of what has not happened",),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_host_is_found_out_that(wrong: str) -> None:
    rigging, words = WRONG[wrong]
    broken = first_broken(rigging)
    assert any(word in what for what in broken for word in words), broken


def test_a_host_is_found_out_that_takes_silence_for_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(tx: Transaction, effect: IdempotencyRecord, *, error: Any) -> None:
        records.mark_failed(tx, effect, now=effect.claimed_at, error=error)

    monkeypatch.setattr(records, "mark_in_doubt", lose)
    broken = first_broken(Rigging())
    assert any("failed_no_effect, and has happened" in what for what in broken), broken


def first_broken(rigging: Rigging) -> tuple[str, ...]:
    """What was wrong in the first history in which something was."""
    for seed in range(CAUGHT_WITHIN):
        history = simulate(seed, rigging)
        if history.broken:
            return history.broken
    pytest.fail(f"it was not found out in {CAUGHT_WITHIN} histories")
