"""How long it takes from a fresh Paddock to the first answer of an MCP server of the registry, against `uvx`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

from _side_by_side import Report, Times, alternate, milliseconds, options
from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters

ROOT = Path(__file__).parents[1]
PACKAGE, TOOL, PARAMS = "mcp-server-time", "get_current_time", {"timezone": "Asia/Kolkata"}
COMMANDS = (
    ("plugin", "install", f"pypi:{PACKAGE}", "--enable", "--yes"),
    ("call", f"{PACKAGE}.{TOOL}", "--params", json.dumps(PARAMS)),
)
UVX, ALONE, SERVED = f"uvx {PACKAGE}", "paddock plugin install --enable, call", "paddock serve, install --enable, call"
COLD, WARM = "empty caches", "packages in the caches"
GOAL = 2.0


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        place = Place(Path(folder))
        subjects: dict[str, Callable[[], float]] = {}
        steps: dict[str, list[float]] = {}
        for state in (COLD, WARM):
            subjects[f"{UVX}, {state}"] = place.with_uvx(state)
            subjects[f"{ALONE}, {state}"] = place.with_commands(state, steps)
            subjects[f"{SERVED}, {state}"] = place.with_daemon(state)
        times = alternate(subjects, rounds=2 if given.quick else 7, warm_up=1)
    report = Report(
        "first_answer",
        given,
        "From the first command to the first answer of the server, with an empty home: resolving, fetching and "
        "installing the package with its dependencies from the registry, starting the server, and one call. Ours adds "
        "what uvx does not do: it pins every package by hash, shows what the package offers, compiles and hashes all "
        "files, starts the server in a cage to see whether it answers, and starts it again for the call, unless a "
        "daemon keeps it. The start of the daemon counts; what ends after the answer does on neither side. Paddock is "
        "installed from its wheel, which does not count; "
        "uvx is asked by the official MCP client. Each has a cache of its own, empty or with the packages. Ratios "
        "are of the fastest runs.",
        ["what", "fastest", "median", "against uvx"],
    )
    for name, measured in times.items():
        report.row(name, milliseconds(measured.best), milliseconds(measured.median), f"{_ratio(times, name):.2f}×")
    for step, seconds in steps.items():
        report.row(f"… {step}", milliseconds(min(seconds[1:])), "", "")
    for way in (ALONE, SERVED):
        report.at_most(f"{way}, {COLD}", _ratio(times, f"{way}, {COLD}"), GOAL)
        report.says(f"{way}, {WARM}: {_ratio(times, f'{way}, {WARM}'):.2f}×")
    report.finish()


def _ratio(times: Mapping[str, Times], name: str) -> float:
    """A way against uvx with caches in the same state."""
    state = COLD if name.endswith(COLD) else WARM
    return times[name].best / times[f"{UVX}, {state}"].best


class Place:
    """A Paddock installed from its wheel, and a directory for homes and caches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._paddock = _install_wheel(folder)

    def with_uvx(self, state: str) -> Callable[[], float]:
        def once() -> float:
            environ = self._environment("uvx", state)
            arguments = ["--quiet", "--python", sys.executable, PACKAGE]
            server = StdioServerParameters(command=_program("uvx"), args=arguments, env=dict(environ))
            began = time.perf_counter()
            with Path(os.devnull).open("w") as quiet:
                return asyncio.run(_answered(server, quiet)) - began

        return once

    def with_commands(self, state: str, steps: dict[str, list[float]]) -> Callable[[], float]:
        def once() -> float:
            environ = self._environment("paddock", state)
            seconds = list(self._run_commands(environ))
            for words, spent in zip(COMMANDS, seconds, strict=True):
                steps.setdefault(f"{words[0]}, {state}", []).append(spent)
            return sum(seconds)

        return once

    def with_daemon(self, state: str) -> Callable[[], float]:
        def once() -> float:
            environ = self._environment("paddock", state)
            with self._daemon(environ) as started:
                return started + sum(self._run_commands(environ))

        return once

    def _run_commands(self, environ: Mapping[str, str]) -> Iterator[float]:
        """The seconds of each command: the next one waits for the end of the installation, a person for the answer."""
        install, call = ([self._paddock, *words] for words in COMMANDS)
        began = time.perf_counter()
        done = subprocess.run(install, env=environ, capture_output=True, text=True, check=False)
        yield time.perf_counter() - began
        assert done.returncode == 0, done.stderr
        began = time.perf_counter()
        with subprocess.Popen(
            call, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as calling:
            assert calling.stdout is not None
            answer = ""
            while PARAMS["timezone"] not in answer:
                answer = calling.stdout.readline()
                assert answer, "the call ended without an answer"
            yield time.perf_counter() - began
            calling.stdout.read()
        assert calling.returncode == 0

    @contextmanager
    def _daemon(self, environ: Mapping[str, str]) -> Generator[float, None, None]:
        """A daemon for as long as the block runs; gives the seconds until it was ready."""
        began = time.perf_counter()
        command = [self._paddock, "serve", "--json"]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as daemon:
            assert daemon.stdout is not None
            while json.loads(daemon.stdout.readline())["event"] != "ready":
                pass
            try:
                yield time.perf_counter() - began
            finally:
                daemon.terminate()

    def _environment(self, client: str, state: str) -> dict[str, str]:
        """The environment of a person with an empty home, and no settings for a registry of their own."""
        number = next(self._numbers)
        home = self._folder / f"home-{number}"
        cache = self._folder / f"cache-{client}-{'warm' if state == WARM else number}"
        (home / "run").mkdir(parents=True, mode=0o700)
        removed = ("PYTHON", "PADDOCK", "XDG", "UV_", "PIP_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
        # Both ask the same registry: uv does not read pip's settings.
        return kept | {
            "PIP_CONFIG_FILE": os.devnull,
            "PADDOCK_HTTP_ADDRESS": "127.0.0.1:0",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(cache),
            "XDG_RUNTIME_DIR": str(home / "run"),
        }


def _install_wheel(place: Path) -> Path:
    """Build the wheel and install it as pipx does, with the packages of the lock; return the command."""
    uv, dist, environment = _program("uv"), place / "dist", place / "paddock"
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", dist, ROOT], check=True)
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    subprocess.run([*install, "--require-hashes", "-r", ROOT / "requirements.lock"], check=True)
    subprocess.run([*install, "--no-deps", *dist.glob("*.whl")], check=True)
    # The first command of an installation is not slower than the others because of files that were never read.
    paddock = environment / "bin" / "paddock"
    subprocess.run([paddock, "--version"], check=True, stdout=subprocess.DEVNULL)
    return paddock


async def _answered(server: StdioServerParameters, errors: TextIO) -> float:
    """Start the server and call its tool; return the time of the answer."""
    async with stdio_client(server, errlog=errors) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        answer = await session.call_tool(TOOL, PARAMS)
        assert PARAMS["timezone"] in str(answer.content), answer
        return time.perf_counter()


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


if __name__ == "__main__":
    main()
