"""How long after a file of a plugin is saved its new version answers, against starting Python at all.

The session is the one of `paddock dev`, watching included; the floor is `python3 -c pass` on the same machine in the
same minutes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from _side_by_side import Report, Times, milliseconds, options  # noqa: E402

from paddock.authoring.dev_session import DevSession, RepeatedCall  # noqa: E402
from paddock.authoring.file_watcher import scan_folder  # noqa: E402
from paddock.authoring.scaffold import create_plugin_folder  # noqa: E402
from paddock.authoring.template_catalog import find_template  # noqa: E402
from paddock.authoring.traffic import DevEventReporter  # noqa: E402
from paddock.core.clock import SystemClock  # noqa: E402
from paddock.host.dev.open_dev_host import open_dev_host  # noqa: E402
from paddock.manifest.read import read_package  # noqa: E402

ROUNDS, QUICK = 40, 5
GOAL = 1.0  # seconds
CALL = RepeatedCall("greet", {"name": "Ann"})
BEFORE = 'text": f"'


class Answers:
    """Who waits for the next answer."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "answer":
            self._answers.put_nowait(str(event["result"]))

    async def with_word(self, word: str) -> float:
        """When an answer came that holds this word."""
        async with asyncio.timeout(60):
            while word not in await self._answers.get():
                pass
        return time.perf_counter()


async def reloads(folder: Path, home: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds from each save to its answer, and of a bare interpreter in between."""
    answers, stop = Answers(), asyncio.Event()
    manifest = read_package(folder).single()
    listening = DevEventReporter(manifest, answers, SystemClock(), shows_traffic=False)
    program = folder / "main.py"
    text = program.read_text()
    reloaded: list[float] = []
    started: list[float] = []
    async with open_dev_host(home, folder, listening, environ={}, tap=listening.new_decoder) as workshop:
        session = DevSession(workshop, listening, manifest.capabilities, CALL)
        known = scan_folder(folder)
        await session.start(await workshop.take_snapshot())
        following = asyncio.ensure_future(session.follow(known, None, stop))
        for number in range(-1, rounds):
            began = time.perf_counter()
            program.write_text(text.replace(BEFORE, f"{BEFORE}round{number}end "))
            spent = await answers.with_word(f"round{number}end") - began
            floor = await asyncio.to_thread(bare_interpreter)
            if number >= 0:
                reloaded.append(spent)
                started.append(floor)
        stop.set()
        await following
    return reloaded, started


def bare_interpreter() -> float:
    began = time.perf_counter()
    subprocess.run(["python3", "-c", "pass"], check=True)
    return time.perf_counter() - began


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "plugin"
        create_plugin_folder(find_template("plugin", "python"), "greeter", folder)
        runs = reloads(folder, Path(place) / "home", QUICK if given.quick else ROUNDS)
        reloaded, started = (Times(tuple(one)) for one in asyncio.run(runs))
    report = Report(
        "reload", given, "A saved file of a Python plugin, until the new version has answered a call.",
        ["", "best", "p50", "worst"],
    )  # fmt: skip
    for name, times in (("file saved → new answer", reloaded), ("floor: python3 -c pass", started)):
        report.row(name, milliseconds(times.best), milliseconds(times.median), milliseconds(max(times.runs)))
    verdict = "PASS" if reloaded.median <= GOAL else "FAIL"
    report.goals.append(f"{verdict}  p50 of a reload: {milliseconds(reloaded.median)} (goal: at most {GOAL:g} s)")
    report.finish()


if __name__ == "__main__":
    main()
