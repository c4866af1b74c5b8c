"""What a failed call leaves behind: one test for each pair of what is known of the effect and where the call failed."""

from __future__ import annotations

from fixtures.all_cases import all_cases
from paddock.gate.effects.failure_outcome import FAILURE_STATES, IN_DOUBT_REASONS, EffectKnowledge, FailurePoint
from paddock.gate.idempotency.states import EffectState

CELLS = """
only reads            | not sent       | failed
only reads            | refused        | failed
only reads            | error          | failed
only reads            | invalid result | failed
only reads            | timed out      | failed
only reads            | cancelled      | failed
only reads            | lost           | failed
may change something  | not sent       | failed
may change something  | refused        | failed
may change something  | error          | in doubt
may change something  | invalid result | in doubt
may change something  | timed out      | in doubt
may change something  | cancelled      | in doubt
may change something  | lost           | in doubt
errors mean not done  | not sent       | failed
errors mean not done  | refused        | failed
errors mean not done  | error          | failed
errors mean not done  | invalid result | in doubt
errors mean not done  | timed out      | in doubt
errors mean not done  | cancelled      | in doubt
errors mean not done  | lost           | in doubt
changed its tables    | not sent       | failed
changed its tables    | refused        | in doubt
changed its tables    | error          | in doubt
changed its tables    | invalid result | in doubt
changed its tables    | timed out      | in doubt
changed its tables    | cancelled      | in doubt
changed its tables    | lost           | in doubt
"""
STATES = {"failed": EffectState.FAILED_NO_EFFECT, "in doubt": EffectState.IN_DOUBT}
TABLE = [tuple(cell.strip() for cell in line.split("|")) for line in CELLS.strip().splitlines()]


@all_cases(("knowledge", "point", "state"), TABLE)
def test_a_failure_leaves_this_behind(knowledge: str, point: str, state: str) -> None:
    assert FAILURE_STATES[EffectKnowledge(knowledge), FailurePoint(point)] is STATES[state]


def test_every_pair_is_in_the_table_and_every_doubt_has_a_reason() -> None:
    assert {(EffectKnowledge(knowledge), FailurePoint(point)) for knowledge, point, _ in TABLE} == set(FAILURE_STATES)
    doubtful = {point for (_, point), state in FAILURE_STATES.items() if state is EffectState.IN_DOUBT}
    assert doubtful == set(IN_DOUBT_REASONS)
