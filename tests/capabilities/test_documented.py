"""The reference of host methods says what the code does."""

from __future__ import annotations

from pathlib import Path

from paddock.capabilities.artifacts import request_params, rows
from paddock.capabilities.http import headers, hop, request, service
from paddock.capabilities.methods import REQUIRED_CAPABILITIES
from paddock.capabilities.pipes import channel, frames, incoming_transfer
from paddock.capabilities.services import cache, keyvalue, keyvalue_rows, log
from paddock.capabilities.sql import limits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "host-methods.md"


def test_the_page_lists_every_method_with_what_it_needs_and_no_other() -> None:
    rows = [line.split(" | ")[:2] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    listed = {method.strip("| `"): needs.strip("`") for method, needs in rows}
    assert listed == {method: str(needs or "—") for method, needs in REQUIRED_CAPABILITIES.items()}


def test_the_page_names_the_bounds_as_they_are() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    storage = limits.StorageLimits()
    for words in (
        f"a plugin's file | {storage.file_bytes >> 20} MiB",
        f"{limits.MAX_SQL_CHARS} characters, {limits.MAX_PARAMS} parameters, {storage.statement_seconds:g} s",
        f"one text or blob | {limits.MAX_VALUE_BYTES >> 20} MiB",
        f"{limits.MAX_QUADRATIC_BYTES} bytes in one with",
        f"an answer | {storage.result_bytes >> 20} MiB",
        f"wait up to {storage.wait_seconds:g} s",
        f"after {storage.transaction_idle:g} s without a call, after {storage.transaction_total:g} s in all",
        f"up to {keyvalue_rows.MAX_VALUE_BYTES >> 20} MiB, under keys of up to {keyvalue.MAX_KEY_CHARS} characters",
        f"{keyvalue_rows.KeyValueLimits().bytes >> 20} MiB and {keyvalue_rows.KeyValueLimits().keys} keys",
        f"for {cache.DEFAULT_TTL_S:g} s or what `ttl` says, up to {cache.MAX_TTL_S:.0f} s",
        f"a plugin keeps {cache.CacheLimits().plugin_bytes >> 20} MiB",
        f"above {log.MAX_LINES_PER_S} lines a second",
        ", ".join(f"`{level}`" for level in log.LEVELS),
        f"an artifact | {rows.ArtifactLimits().artifact_bytes >> 20} MiB",
        f"{rows.ArtifactLimits().plugin_bytes >> 20} MiB in {rows.ArtifactLimits().plugin_count} artifacts",
        f"transfers at once | {channel.MAX_STREAMS}",
        f"a frame | {frames.MAX_FRAME_BYTES} bytes",
        f"nothing moves | {incoming_transfer.IDLE_TIMEOUT_S:g} s",
        f"up to {request_params.MAX_INLINE_BYTES >> 20} MiB travels in the message itself",
        f"`retries` ({request.DEFAULT_RETRIES}), `backoff` in seconds ({request.DEFAULT_BACKOFF_S:g})",
        f"a body, either way | {request.MAX_BODY_BYTES >> 20} MiB",
        f"| {request.DEFAULT_TIMEOUT_S:g} s, or what `timeout` says, up to {request.MAX_TIMEOUT_S:g} s",
        f"repetitions | {request.DEFAULT_RETRIES}, or what `retries` says, up to {request.MAX_RETRIES}",
        f"{headers.MAX_HEADERS}, with {headers.MAX_HEADERS_BYTES} characters in all",
        f"concurrent requests of a plugin and tenant | {service.MAX_CONCURRENT}",
        f"followed {hop.MAX_REDIRECTS} times",
    ):
        assert words in page, words
    assert incoming_transfer.IDLE_TIMEOUT_S == channel.STALL_TIMEOUT_S
    assert (keyvalue.MAX_KEY_CHARS, keyvalue_rows.MAX_VALUE_BYTES) == (cache.MAX_KEY_CHARS, cache.MAX_VALUE_BYTES)
