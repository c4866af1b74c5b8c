"""What a call leaves behind until it is on disk is small, whatever it was made with."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by

from paddock.core.errors import CallerError
from paddock.core.ids import DEFAULT_TENANT, CallId
from paddock.gate.course import Course


class Large(dict[str, Any]):
    """Parameters that can be looked after."""


@pytest.mark.req("K-17")
async def test_an_entry_that_waits_for_the_disk_holds_neither_parameters_nor_where_it_failed(tmp_path: Path) -> None:
    async with Office(tmp_path).open() as host:
        target = host._gate.catalogue(DEFAULT_TENANT).find("mail.look")  # pyright: ignore[reportPrivateUsage]
        payload = Large(text="x" * 1000)
        course = Course(CallId("call_1"), target, payload, made_by(ANN), 0.0)

        def refused(given: Large) -> None:
            raise CallerError(f"{len(given)} are too many", code="invalid_params", details={"envelope": given})

        with pytest.raises(CallerError) as caught:
            refused(payload)
        course.end(1.0, None, caught.value)
        gone = weakref.ref(payload)
        del payload, caught

        assert gone() is None
        assert (course.ended().error_code, course.ended().error_message) == ("invalid_params", "1 are too many")
