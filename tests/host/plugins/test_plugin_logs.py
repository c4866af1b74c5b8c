"""What plugins log: kept in order by a thread, whatever the disk does. A named pipe stands for a disk that hangs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.clock import SystemClock
from paddock.core.errors import HostError
from paddock.host.plugins.logs import plugin_logs
from paddock.host.plugins.logs.log_files import MAX_LOG_FILE_BYTES, read_last_lines
from paddock.host.plugins.logs.plugin_logs import MAX_QUEUED_BYTES, open_plugin_logs


def hanging(directory: Path, plugin: str = "parrot") -> Path:
    """A log file that nobody can write to: opening it waits until somebody reads it."""
    directory.mkdir(parents=True)
    path = directory / f"{plugin}.log"
    os.mkfifo(path)
    return path


def read_all(path: Path) -> list[str]:
    with path.open("rb") as file:
        return said([json.loads(line) for line in file])


def said(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    return [entry["line"] for entry in entries]


async def test_reading_gives_everything_that_was_written_before_in_its_order(tmp_path: Path) -> None:
    async with open_plugin_logs(tmp_path, SystemClock()) as logs:
        for round_ in range(20):
            for number in range(100):
                logs.write("parrot", f"{round_} {number}")
            assert said(await logs.read_last("parrot", 3)) == [f"{round_} {number}" for number in (97, 98, 99)]
        assert len(await logs.read_last("parrot", 5_000)) == 2_000
        assert await logs.read_last("nobody", 5) == []


async def test_what_was_written_last_is_in_the_file_when_the_logs_are_closed(tmp_path: Path) -> None:
    async with open_plugin_logs(tmp_path, SystemClock()) as logs:
        for number in range(1_000):
            logs.write("parrot", f"line {number}")
    logs.write("parrot", "too late, and harmless")
    assert said(read_last_lines(tmp_path, "parrot", 5_000)) == [f"line {number}" for number in range(1_000)]


async def test_a_full_file_becomes_the_older_one_and_both_are_read(tmp_path: Path) -> None:
    lines = 3 * MAX_LOG_FILE_BYTES // 10_000
    async with open_plugin_logs(tmp_path, SystemClock()) as logs:
        for number in range(lines):
            logs.write("parrot", f"{number} " + "x" * 10_000)
            if number % 20 == 0:
                await logs.read_last("parrot", 1)
        kept = [int(line.split()[0]) for line in said(await logs.read_last("parrot", 5_000))]
    assert kept == list(range(kept[0], lines))
    sizes = [entry.stat().st_size for entry in os.scandir(tmp_path)]
    assert len(sizes) == 2 and max(sizes) <= MAX_LOG_FILE_BYTES
    assert sum(sizes) > MAX_LOG_FILE_BYTES


async def test_lines_that_a_hanging_disk_has_no_room_for_are_counted_in_one_line_and_the_others_stay_in_order(
    tmp_path: Path,
) -> None:
    path = hanging(tmp_path / "logs")
    async with open_plugin_logs(path.parent, SystemClock()) as logs:
        logs.write("parrot", "the first")
        began = time.monotonic()
        for number in range(2_000):
            logs.write("parrot", f"{number} " + "x" * 1_000)
        assert time.monotonic() - began < 5, "writing waits for the disk"
        reading = asyncio.ensure_future(asyncio.to_thread(read_all, path))
    lines = await patiently(reading)
    assert lines[0] == "the first"
    upcoming, kept = 0, 0
    for line in lines[1:]:
        lost = re.fullmatch(r"\[paddock\] ([\d,]+) lines lost here: the disk did not take them in time", line)
        assert lost or line.startswith(f"{upcoming} x"), "a line is missing, and nothing says so"
        upcoming += int(lost[1].replace(",", "")) if lost else 1
        kept += not lost
    assert upcoming == 2_000
    assert MAX_QUEUED_BYTES // 1_200 < kept < 2_000


async def test_the_flood_of_one_plugin_costs_another_none_of_its_lines(tmp_path: Path) -> None:
    path = hanging(tmp_path / "logs")
    async with open_plugin_logs(path.parent, SystemClock()) as logs:
        for _ in range(2_000):
            logs.write("parrot", "x" * 1_000)
        logs.write("quiet", "still here")
        reading = asyncio.ensure_future(asyncio.to_thread(read_all, path))
        assert said(await patiently(logs.read_last("quiet", 5))) == ["still here"]
    await patiently(reading)


async def test_what_a_full_disk_did_not_take_is_told_once_it_takes_lines_again(tmp_path: Path) -> None:
    async with open_plugin_logs(tmp_path / "logs", SystemClock()) as logs:
        (tmp_path / "logs").write_text("in the way")
        for number in range(3):
            logs.write("parrot", f"unheard {number}")
            assert await logs.read_last("parrot", 5) == []
        (tmp_path / "logs").unlink()
        logs.write("parrot", "heard")
        assert said(await logs.read_last("parrot", 5)) == [
            "[paddock] 3 lines lost here: the disk did not take them in time",
            "heard",
        ]


async def test_whoever_reads_from_a_disk_that_hangs_is_told_so_and_closing_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_logs, "DISK_TIMEOUT_S", 0.2)
    path = hanging(tmp_path / "logs")
    began = time.monotonic()
    async with open_plugin_logs(path.parent, SystemClock(), close_timeout_s=0.2) as logs:
        logs.write("parrot", "unheard")
        with pytest.raises(HostError, match="did not give the log of parrot") as told:
            await logs.read_last("parrot", 5)
        assert str(path.parent) in told.value.hint
    assert time.monotonic() - began < 5
    await asyncio.to_thread(read_all, path)  # lets the thread go


async def test_followers_see_every_line_at_once_whatever_the_disk_does(tmp_path: Path) -> None:
    path = hanging(tmp_path / "logs")
    async with open_plugin_logs(path.parent, SystemClock()) as logs:
        following = logs.follow("parrot")
        logs.write("parrot", "now")
        assert (await patiently(anext(following)))["line"] == "now"
        await following.aclose()
        reading = asyncio.ensure_future(asyncio.to_thread(read_all, path))
    assert await patiently(reading) == ["now"]


async def test_a_log_file_that_hangs_holds_up_no_call(home: Home) -> None:
    home.install()
    home.install("second")
    path = hanging(home.path / "state" / "logs")
    async with open_host(Config(home=home.path, environ={})) as host:
        for _ in range(20):  # each of them logs a line
            assert await patiently(host.call("parrot.say", {"text": "hello"}))
        assert await patiently(host.call("second.say", {"text": "hello"}))
        reading = asyncio.ensure_future(asyncio.to_thread(read_all, path))
    assert sum("hello" in line for line in await patiently(reading)) == 20
