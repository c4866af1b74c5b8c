"""What is kept of a call until it is on disk is small, whatever it was made with."""

from __future__ import annotations

import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gate.test_governed_calls import ANN, Office, made_by

from paddock.core.errors import CallerError
from paddock.core.ids import DEFAULT_TENANT, CallId, RequestId
from paddock.gate.invocation import Invocation
from paddock.ledger.entry import EntryDraft, prepare_entry
from paddock.policy.decision import Allow


class Large(dict[str, Any]):
    """Parameters that can be looked after."""


async def test_an_entry_that_waits_for_the_disk_holds_neither_parameters_nor_where_it_failed(tmp_path: Path) -> None:
    async with Office(tmp_path).open() as host:
        target = host._gate.catalogue(DEFAULT_TENANT).find("mail.look")  # pyright: ignore[reportPrivateUsage]
        payload = Large(text="x" * 1000)
        course = Invocation(CallId("call_1"), target, payload, made_by(ANN), 0.0)

        def refused(given: Large) -> None:
            raise CallerError(f"{len(given)} are too many", code="invalid_params", details={"envelope": given})

        with pytest.raises(CallerError) as caught:
            refused(payload)
        course.finish(1.0, None, caught.value)
        gone = weakref.ref(payload)
        del payload, caught

        assert gone() is None
        assert (course.ended_event().error_code, course.ended_event().error_message) == (
            "invalid_params",
            "1 are too many",
        )


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"found": 1, "metrics": {"tokens": 3}, "model": "m", "nondeterminism": {"seed": 1}}, None),
        (None, CallerError("no such thing", code="invalid_params")),
    ],
)
async def test_what_a_call_tells_the_ledger_is_what_its_event_says(
    tmp_path: Path, result: Any, error: CallerError | None
) -> None:
    async with Office(tmp_path).open() as host:
        target = host._gate.catalogue(DEFAULT_TENANT).find("mail.look")  # pyright: ignore[reportPrivateUsage]
        course = Invocation(CallId("call_1"), target, {"text": "x"}, made_by(ANN), 0.0)
        course.approval, course.proposed, course.replay_of = "apr_1", "mail.send", CallId("call_0")
        course.finish(0.0123, result, error)
        at = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)

        quickly = prepare_entry("evt_1", EntryDraft(course.split_event, "default", at, "call_1"), NoChance())
        as_event = prepare_entry("evt_1", EntryDraft(course.ended_event(), "default", at, "call_1"), NoChance())

        assert quickly == as_event
        assert quickly.at == at.isoformat()


@pytest.mark.parametrize("took", [0.0, 0.000001, 0.0012345, 0.002, 61.0, 100_000.000001])
@pytest.mark.parametrize("request_id", ["req_1", "größer", 'a "quoted" one'])
async def test_what_is_told_of_calls_that_are_alike_is_what_their_events_say(
    tmp_path: Path, took: float, request_id: str
) -> None:
    async with Office(tmp_path).open() as host:
        target = host._gate.catalogue(DEFAULT_TENANT).find("mail.look")  # pyright: ignore[reportPrivateUsage]
        context = replace(made_by(ANN), request=RequestId(request_id))
        for number, decision in enumerate((Allow(("a", "ü"), "fine", "pol_1"), Allow(("b",), "fine", "pol_2"))):
            course = Invocation(CallId(f"call_{number}"), target, {"text": "x"}, context, 0.0)
            course.decision, course.ran = decision, True
            course.finish(took, {"found": number}, None)
            at = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)

            quickly = prepare_entry(
                "evt_1", EntryDraft(course.split_event, "default", at, "call_1", request_id), NoChance()
            )
            as_event = prepare_entry(
                "evt_1", EntryDraft(course.ended_event(), "default", at, "call_1", request_id), NoChance()
            )

            assert quickly._replace(stored=None) == as_event._replace(stored=None)


class NoChance:
    """Salts that are all alike."""

    def bytes(self, count: int) -> bytes:
        return bytes(count)
