"""The reference of host methods says what the code does."""

from __future__ import annotations

from pathlib import Path

from paddock.capabilities import cache, keyvalue, keyvalue_rows, log
from paddock.capabilities.artifacts import artifacts, rows
from paddock.capabilities.http import fetch, headers, redirect, request
from paddock.capabilities.methods import NEEDS
from paddock.capabilities.pipes import arrival, channel, frames
from paddock.capabilities.storage import limits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "host-methods.md"


def test_the_page_lists_every_method_with_what_it_needs_and_no_other() -> None:
    rows = [line.split(" | ")[:2] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    listed = {method.strip("| `"): needs.strip("`") for method, needs in rows}
    assert listed == {method: str(needs or "—") for method, needs in NEEDS.items()}


def test_the_page_names_the_bounds_as_they_are() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    storage = limits.StorageLimits()
    for words in (
        f"a plugin's file | {storage.file_bytes >> 20} MiB",
        f"{limits.LONGEST_SQL} characters, {limits.MOST_PARAMS} parameters, {storage.statement_seconds:g} s",
        f"one text or blob | {limits.LARGEST_VALUE >> 20} MiB",
        f"{limits.SQUARED} bytes in one with",
        f"an answer | {storage.result_bytes >> 20} MiB",
        f"wait up to {storage.wait_seconds:g} s",
        f"after {storage.transaction_idle:g} s without a call, after {storage.transaction_total:g} s in all",
        f"up to {keyvalue_rows.LARGEST_VALUE >> 20} MiB, under keys of up to {keyvalue.LONGEST_KEY} characters",
        f"{keyvalue_rows.KeyValueLimits().bytes >> 20} MiB and {keyvalue_rows.KeyValueLimits().keys} keys",
        f"for {cache.DEFAULT_TTL:g} s or what `ttl` says, up to {cache.LONGEST_TTL:.0f} s",
        f"a plugin keeps {cache.CacheLimits().plugin_bytes >> 20} MiB",
        f"above {log.LINES_A_SECOND} lines a second",
        ", ".join(f"`{level}`" for level in log.LEVELS),
        f"an artifact | {rows.ArtifactLimits().one >> 20} MiB",
        f"{rows.ArtifactLimits().plugin_bytes >> 20} MiB in {rows.ArtifactLimits().plugin_count} artifacts",
        f"transfers at once | {channel.MOST_STREAMS}",
        f"a frame | {frames.LARGEST_FRAME} bytes",
        f"nothing moves | {arrival.IDLE_SECONDS:g} s",
        f"up to {artifacts.MOST_INLINE >> 20} MiB travels in the message itself",
        f"`retries` ({request.USUAL_RETRIES}), `backoff` in seconds ({request.USUAL_BACKOFF:g})",
        f"a body, either way | {request.LARGEST_BODY >> 20} MiB",
        f"| {request.USUAL_SECONDS:g} s, or what `timeout` says, up to {request.MOST_SECONDS:g} s",
        f"repetitions | {request.USUAL_RETRIES}, or what `retries` says, up to {request.MOST_RETRIES}",
        f"{headers.MOST_HEADERS}, with {headers.LONGEST_HEADERS} characters in all",
        f"requests under way of a plugin and tenant | {fetch.AT_ONCE}",
        f"followed {redirect.MOST_REDIRECTS} times",
    ):
        assert words in page, words
    assert arrival.IDLE_SECONDS == channel.STALL_SECONDS
    assert (keyvalue.LONGEST_KEY, keyvalue_rows.LARGEST_VALUE) == (cache.LONGEST_KEY, cache.LARGEST_VALUE)
