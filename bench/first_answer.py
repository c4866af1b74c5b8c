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
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TextIO

from _side_by_side import Report, alternate, milliseconds, options
from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters

ROOT = Path(__file__).parents[1]
PACKAGE, TOOL, PARAMS = "mcp-server-time", "get_current_time", {"timezone": "Asia/Kolkata"}
UVX, PADDOCK = f"uvx {PACKAGE}", f"paddock plugin install pypi:{PACKAGE}, enable, call"
GOAL = 2.0
STEPS = (
    ("plugin", "install", f"pypi:{PACKAGE}", "--yes"),
    ("plugin", "enable", PACKAGE),
    ("call", f"{PACKAGE}.{TOOL}", "--params", json.dumps(PARAMS)),
)


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        place, numbers = Path(folder), count()
        paddock, steps = _install_wheel(place), dict[str, list[float]]()
        times = alternate(
            {
                UVX: _with_uvx(place, numbers),
                PADDOCK: _with_paddock(paddock, place, numbers, steps),
            },
            rounds=2 if given.quick else 5,
            warm_up=1,  # what the registry's own caches do not have yet
        )
    report = Report(
        "first_answer",
        given,
        "From the first command to the first answer of the server, with empty caches and an empty home: resolving, "
        "fetching and installing the package with its dependencies from the registry, starting the server, and one "
        "call. Ours adds what uvx does not do: it pins every package by hash, reads what the package offers, asks for "
        "consent (`--yes`), compiles and hashes all files, and starts the server in a cage. Paddock is installed from "
        "its wheel in an environment of its own, which is not counted; uvx is asked by the official MCP client. Goals "
        "are for the fastest runs.",
        ["what", "fastest", "median", "against uvx"],
    )
    for name, measured in times.items():
        ratio = f"{measured.best / times[UVX].best:.2f}×"
        report.row(name, milliseconds(measured.best), milliseconds(measured.median), ratio)
    for step, seconds in steps.items():
        report.row(f"… of which {step}", milliseconds(min(seconds[1:])), "", "")
    report.at_most("the first answer against uvx", times[PADDOCK].best / times[UVX].best, GOAL)
    report.finish()


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


def _with_uvx(place: Path, numbers: Iterator[int]) -> Callable[[], float]:
    def once() -> float:
        environ = _environment(place / f"uvx-{next(numbers)}")
        arguments = ["--quiet", "--python", sys.executable, PACKAGE]
        server = StdioServerParameters(command=_program("uvx"), args=arguments, env=dict(environ))
        began = time.perf_counter()
        with Path(os.devnull).open("w") as quiet:
            return asyncio.run(_answered(server, quiet)) - began

    return once


async def _answered(server: StdioServerParameters, errors: TextIO) -> float:
    """Start the server and call its tool; return the time of the answer."""
    async with stdio_client(server, errlog=errors) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        answer = await session.call_tool(TOOL, PARAMS)
        assert "Asia/Kolkata" in str(answer.content), answer
        return time.perf_counter()


def _with_paddock(
    paddock: Path, place: Path, numbers: Iterator[int], steps: dict[str, list[float]]
) -> Callable[[], float]:
    def once() -> float:
        folder = place / f"home-{next(numbers)}"
        environ = {**_environment(folder), "PADDOCK_HOME": str(folder / "paddock")}
        taken = 0.0
        for words in STEPS:
            began = time.perf_counter()
            done = subprocess.run([paddock, *words], env=environ, capture_output=True, text=True, check=False)
            seconds = time.perf_counter() - began
            assert done.returncode == 0, done.stderr
            steps.setdefault(" ".join(words[:2]), []).append(seconds)
            taken += seconds
        assert "Asia/Kolkata" in done.stdout, done.stdout
        return taken

    return once


def _environment(folder: Path) -> Mapping[str, str]:
    """The environment of a person who has nothing cached, and no settings for a registry of their own."""
    folder.mkdir()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PADDOCK", "XDG", "UV_", "PIP_", "VIRTUAL_ENV"))
    }
    # Both ask the same registry: uv does not read pip's settings.
    return kept | {
        "PIP_CONFIG_FILE": os.devnull,
        **{name: value for name, value in os.environ.items() if name == "PIP_CERT"},
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_DATA_HOME": str(folder / "data"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "PIP_CACHE_DIR": str(folder / "pip"),
    }


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


if __name__ == "__main__":
    main()
