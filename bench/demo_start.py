"""How long the demo takes until its console can be opened, against `paddock serve` alone in an empty home."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from _side_by_side import Report, alternate, milliseconds, options

SOURCE = Path(__file__).parents[1] / "src"
SERVE, DEMO = "paddock serve, nothing installed", "paddock demo"
GOAL = 10_000.0  # milliseconds
MOST = 6.0  # times as long as a daemon alone


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        place, homes = Path(folder), count()
        environ = _environment(place)
        times = alternate(
            {
                SERVE: _first_word(environ, lambda: place / str(next(homes)), "serve", "--json"),
                DEMO: _first_word(environ, lambda: place / str(next(homes)), "demo", "--json"),
            },
            rounds=2 if given.quick else 10,
            warm_up=1,
        )
    report = Report(
        "demo_start",
        given,
        "From the start of the process to its first word: `ready`, or the link to the console. By then the demo has "
        "installed and started the example plugins, and made its calls. Bytecode is compiled. Goals are for the "
        "fastest runs.",
        ["command", "fastest", "median", "against serve"],
    )
    for name, measured in times.items():
        ratio = f"{measured.best / times[SERVE].best:.2f}×"
        report.row(name, milliseconds(measured.best), milliseconds(measured.median), ratio)
    report.at_most("the demo against a daemon alone", times[DEMO].best / times[SERVE].best, MOST)
    report.at_most("the demo", times[DEMO].best * 1000, GOAL, " ms")
    report.finish()


def _environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PADDOCK", "XDG"))}
    # Bytecode is written on the first run and read on the others.
    return kept | {
        "PYTHONPATH": str(SOURCE),
        "PYTHONPYCACHEPREFIX": str(place / "bytecode"),
        "PADDOCK_HTTP_ADDRESS": "127.0.0.1:0",
        "PADDOCK_HTTP_FIRST_LINK": "false",
    }


def _first_word(environ: Mapping[str, str], home: Callable[[], Path], *arguments: str) -> Callable[[], float]:
    """How long a command takes until it writes something; it is ended then."""

    def once() -> float:
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "paddock.cli", *arguments],
            env={**environ, "PADDOCK_HOME": str(home())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            while b'"url"' not in process.stdout.readline():
                assert process.poll() is None, f"{arguments[0]} did not start"
            took = time.perf_counter() - began
            process.stdout.read() if arguments[0] == "demo" else process.terminate()
        return took

    return once


if __name__ == "__main__":
    main()
