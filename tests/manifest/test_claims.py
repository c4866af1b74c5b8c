"""What a server says of its tools is told in words, and only ever makes a check stricter."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import native, sound

from paddock.manifest.effects import EFFECT_TEXT, Claim, Effect, claim_of, effect_texts
from paddock.manifest.permissions import callable_effects


@pytest.mark.parametrize(
    ("annotations", "claim"),
    [
        ({}, Claim.NOTHING),
        ({"title": "X", "idempotentHint": True, "openWorldHint": False}, Claim.NOTHING),
        ({"readOnlyHint": "true", "destructiveHint": 1}, Claim.NOTHING),
        ({"readOnlyHint": True}, Claim.READS),
        ({"readOnlyHint": True, "destructiveHint": False}, Claim.READS),
        ({"readOnlyHint": True, "destructiveHint": True}, Claim.DELETES),
        ({"destructiveHint": True}, Claim.DELETES),
        ({"readOnlyHint": False, "destructiveHint": False}, Claim.ADDS),
        ({"destructiveHint": False}, Claim.ADDS),
        ({"readOnlyHint": False}, Claim.CHANGES),
    ],
)
def test_annotations_are_read_as_one_claim_and_the_stricter_of_two_that_differ_counts(
    annotations: dict[str, Any], claim: Claim
) -> None:
    assert claim_of(annotations) is claim


@pytest.mark.parametrize("declared", [None, ["read_only"], []])
@pytest.mark.parametrize("annotations", [{"destructiveHint": True}, {"readOnlyHint": False}])
def test_a_tool_that_says_it_changes_something_does_not_count_as_read_only(
    declared: list[str] | None, annotations: dict[str, bool]
) -> None:
    tool = {"name": "x", "annotations": annotations} | ({} if declared is None else {"effects": declared})
    manifest = sound(native(tools=[tool], capabilities=[]))

    assert callable_effects(manifest, manifest.callables[0]) == (Effect.UNKNOWN,)


def test_what_is_unknown_is_told_as_what_the_tool_says() -> None:
    assert effect_texts(["unknown"], Claim.READS) == ["says it only reads (unverified)"]
    assert effect_texts(["unknown"], Claim.DELETES) == ["says it deletes"]
    assert effect_texts(["unknown"], Claim.NOTHING) == [EFFECT_TEXT[Effect.UNKNOWN]]
    assert effect_texts(["db_write"], Claim.READS) == ["writes to a database"]
    assert effect_texts(["db_write"], Claim.DELETES) == ["writes to a database", "says it deletes"]
    assert "trusts it to" in effect_texts(["read_only"], Claim.READS, trusted=True)[0]
