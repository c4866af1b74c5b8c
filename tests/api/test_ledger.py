"""The ledger over HTTP: narrowed, in pages, one story, and new entries as they come."""

from __future__ import annotations

import pytest

from fixtures.daemons import Daemon, LocalConnection


def said(served: Daemon, text: str) -> str:
    return served.ask("POST", "/plugins/parrot/call/say", {"text": text}).body["call_id"]


def test_what_was_recorded_is_listed_newest_first_and_page_after_page(served: Daemon) -> None:
    for text in ("one", "two", "three"):
        said(served, text)

    whole = served.ask("GET", "/ledger?type=call.ended&limit=3").body
    first = served.ask("GET", "/ledger?type=call.ended&limit=2").body
    second = served.ask("GET", f"/ledger?type=call.ended&limit=1&before={first['next']}").body

    numbers = [entry["seq"] for entry in whole["entries"]]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == 3
    assert [*first["entries"], *second["entries"]] == whole["entries"]
    assert served.ask("GET", f"/ledger?before={numbers[-1]}&limit=1000").body["next"] is None


def test_entries_are_narrowed_by_what_they_are_about(served: Daemon) -> None:
    call = said(served, "mine")
    said(served, "another")

    of_call = served.ask("GET", f"/ledger?call={call}").body["entries"]

    assert {entry["call"] for entry in of_call} == {call}
    assert served.ask("GET", "/ledger?plugin=nobody").body["entries"] == []
    assert served.ask("GET", "/ledger?until=2020-01-01").body["entries"] == []
    assert served.ask("GET", "/ledger?since=2020-01-01&type=call.*").body["entries"]


@pytest.mark.parametrize("query", ["since=yesterday", "before=-1", "limit=0", "limit=1001", "call=a&call=b", "typ=x"])
def test_what_cannot_be_asked_for_is_refused(served: Daemon, query: str) -> None:
    answer = served.ask("GET", f"/ledger?{query}")

    assert answer.status == 400, answer.body


def test_one_story_is_told_whole_by_the_id_of_its_call_and_of_an_entry(served: Daemon) -> None:
    call = said(served, "whole")

    story = served.ask("GET", f"/ledger/{call}").body

    assert story["altered"] == [] and {entry["call"] for entry in story["entries"]} == {call}
    entry = story["entries"][0]
    assert served.ask("GET", f"/ledger/{entry['id']}").body["entries"] == [entry]
    unknown = served.ask("GET", "/ledger/evt_nobody")
    assert (unknown.status, unknown.body["code"]) == (404, "ledger.unknown")


def test_new_entries_are_told_and_a_cut_connection_goes_on_where_it_was(served: Daemon) -> None:
    with served.following("/ledger?follow=1&type=call.*") as entries:
        first = said(served, "first")
        told = next(entry for entry in entries if entry["data"]["call"] == first)

    missed = said(served, "while nobody followed")

    with served.following("/ledger?follow=1&type=call.*", last_event_id=told["id"]) as entries:
        after = next(entries)
    assert int(after["id"]) > int(told["id"])
    assert after["data"]["call"] == missed
    assert after["event"] == "entry"


def test_the_head_of_a_followed_ledger_holds_nothing(served: Daemon) -> None:
    connection = LocalConnection(served.socket)
    try:
        for _ in range(2):
            connection.request("HEAD", "/api/v1/ledger?follow=1")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"")
    finally:
        connection.close()
