"""Metadata that a plugin reports in its answer, read for the ledger and bounded in size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import orjson

from paddock.capabilities.artifacts.address import is_address
from paddock.core.canonical import hash_of

MAX_METADATA_BYTES = 4096  # of one object from a plugin's answer that goes into the ledger
_MAX_MODEL_CHARS = 200


class ReportedMetadata(NamedTuple):
    """Metadata for the ledger that a plugin put into its answer."""

    metrics: dict[str, Any] | None = None
    nondeterminism: dict[str, Any] | None = None
    model: str | None = None
    artifacts: tuple[dict[str, Any], ...] | None = None


NO_METADATA = ReportedMetadata()


def read_metadata(answer: Mapping[str, Any]) -> ReportedMetadata:
    """Metrics, nondeterminism and model of an answer; artifacts are read apart, since only operators report them."""
    if "metrics" not in answer and "nondeterminism" not in answer and "model" not in answer:
        return NO_METADATA
    model = answer.get("model")
    return ReportedMetadata(
        _bounded_object(answer.get("metrics")),
        _bounded_object(answer.get("nondeterminism")),
        model[:_MAX_MODEL_CHARS] if isinstance(model, str) else None,
    )


def read_artifacts(value: Any) -> tuple[dict[str, Any], ...] | None:
    """The artifacts that an operator reports, for the ledger; `verified` are those that the host stores itself."""
    if not isinstance(value, list) or not value:
        return None
    objects = [cast("dict[str, Any]", item) for item in cast("list[Any]", value) if isinstance(item, dict)]
    references = [{name: item.get(name) for name in ("type", "path", "hash")} for item in objects]
    artifacts = tuple(item | {"verified": is_address(item["path"])} for item in references)
    size = len(orjson.dumps(artifacts))
    if size <= MAX_METADATA_BYTES:
        return artifacts
    return ({"count": len(artifacts), "size": size, "hash": hash_of(artifacts)},)


def _bounded_object(value: Any) -> dict[str, Any] | None:
    """An object from a plugin's answer, for the ledger; a large one is replaced by its size and hash."""
    if not isinstance(value, dict):
        return None
    written = cast("dict[str, Any]", value)
    try:
        whole = orjson.dumps(written)
    except orjson.JSONEncodeError:
        return {"size": None, "hash": hash_of(written)}  # no JSON, from a function of the application's own
    if len(whole) <= MAX_METADATA_BYTES:
        return cast("dict[str, Any]", orjson.loads(whole))  # a copy: the caller may change theirs
    return {"size": len(whole), "hash": hash_of(written)}
