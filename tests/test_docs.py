"""The documentation says what is true: every block of it is run, parsed or compared with the file it shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

import pytest
import yaml

from documented import pictures, png
from documented.blocks import blocks
from documented.session import Typed, agrees, run, typed
from fixtures.daemons import eventually
from fixtures.ready_commands import write_ready_program

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SECONDS_FOR_A_PAGE = 180

# Commands that are shown but not typed here, each with its reason. Everything else is typed.
NOT_TYPED = {
    r"git clone \S+": "needs the network; the checkout under test is its result",
    r"cd paddock": "follows the clone",
    r"sudo apt-get install [\w .-]+": "changes the machine",
    r"\./run demo": "proven by the tests of the demo command",
    r"\./run test\b.*": "would start the suite inside itself",
    r"\./run check": "runs by itself, beside the tests",
    r"\./run bench\b.*": "measures for minutes",
    r"\./run docs --serve": "does not end by itself",
    r"\./run lock\b.*": "asks the package registry",
    r"\.ci/run": "is ./run check and ./run test",
}

# Each starts daemons of its own, and tests of the same commands are in every run.
TAKE_LONG = (
    "approvals.md",
    "author-tools.md",
    "http-api.md",
    "manage-plugins.md",
    "people-and-keys.md",
    "policy.md",
    "run-plugins.md",
    "sign-and-trust.md",
)

# What a page's commands need beside Paddock. Where it is missing the page cannot be tried.
NEEDED = {"plugin-in-typescript.md": "node", "plugin-in-shell.md": "jq"}

BLOCKS = {page: blocks(page.read_text(encoding="utf-8")) for page in PAGES}
UNCHECKED = ("console", "text", "mermaid")  # run by a test of their own; prose; a drawing


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of(page: Path) -> list[Typed]:
    """What a reader of the page types, but for what cannot be typed here."""
    return [
        one
        for block in BLOCKS[page]
        if block.language == "console"
        for one in typed(block.text, block.line)
        if not any(re.fullmatch(pattern, one.command) for pattern in NOT_TYPED)
    ]


@pytest.fixture
def desk(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder that looks like a checkout to the commands of a page, and an environment with a home of its own."""
    folder, programs = tmp_path / "checkout", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", folder / "examples")
    write_ready_program(programs / "paddock", ROOT / "src")
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    write_program(python, f"exec '{sys.executable}' \"$@\"")
    write_program(folder / "run", f"exec '{ROOT}/run' \"$@\"")
    environment = {
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PADDOCK_HOME": str(tmp_path / "home"),
        "PADDOCK_HTTP_ADDRESS": "127.0.0.1:0",  # others may listen where people do
        "PADDOCK_HTTP_FIRST_LINK": "false",
        "PADDOCK_RUN_NO_APT": "1",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    return folder, environment


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in TAKE_LONG else ())
        for page in PAGES
        if commands_of(page)
    ],
    ids=named,
)
def test_every_command_of_a_page_does_what_the_page_says(page: Path, desk: tuple[Path, dict[str, str]]) -> None:
    if (program := NEEDED.get(page.name)) and shutil.which(program) is None:
        pytest.skip(f"there is no {program} on this machine")
    commands = commands_of(page)
    folder, environment = desk

    happened = run(commands, folder, environment, SECONDS_FOR_A_PAGE)

    for said, done in zip(commands, happened, strict=True):
        where = f"{page.relative_to(ROOT)}:{said.line}: $ {said.command}"
        assert done.status == said.status, f"{where}\nended with {done.status}, not {said.status}\n{done.output}"
        shown = "\n".join(said.output)
        assert agrees(said.output, done.output), f"{where}\nthe page shows:\n{shown}\nit printed:\n{done.output}"


def test_every_block_says_in_which_language_it_is_and_is_one_that_a_test_looks_at() -> None:
    known = {"json", "yaml", "toml", "python", *UNCHECKED}
    odd = [
        f"{named(page)}:{block.line}: {block.language or 'nothing'}"
        for page, found in BLOCKS.items()
        for block in found
        if not block.title and block.language not in known
    ]
    assert odd == [], f"use one of {', '.join(sorted(known))}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.title or block.language not in UNCHECKED for block in BLOCKS[page])],
    ids=named,
)
def test_every_block_of_a_page_is_what_it_claims_to_be(page: Path, desk: tuple[Path, dict[str, str]]) -> None:
    folder, environment = desk
    for block in BLOCKS[page]:
        where = f"{named(page)}:{block.line}"
        if block.title:
            shown = (ROOT / block.title).read_text(encoding="utf-8")
            assert block.text.strip() in shown, f"{where} differs from {block.title}"
            continue
        match block.language:
            case "json":
                json.loads(block.text)
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "toml":
                tomllib.loads(block.text)
            case "python":
                program = [sys.executable, "-P", "-W", "error", "-c", block.text]
                done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, timeout=60, text=True)
                assert done.returncode == 0, f"{where}\n{done.stderr}"
            case _:
                pass


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ([], "anything\n", True),
        (["a", "b"], "a\nb\n", True),
        (["a"], "a\nb\n", False),
        (["a", "..."], "a\nb\nc\n", True),
        (["took ... ms"], "took 12 ms\n", True),
        (["...", "end"], "end\n", True),
        (["...", "end"], "end\nmore\n", False),
    ],
)
def test_shown_output_is_compared_line_by_line_with_dots_for_anything(
    shown: list[str], printed: str, *, same: bool
) -> None:
    assert agrees(shown, printed) is same


def test_a_session_keeps_its_folder_and_tells_how_each_command_ended(tmp_path: Path) -> None:
    commands = typed("$ mkdir a && cd a\n$ pwd\n/...\n$ false  # exit 1\n$ echo 'one\n> two'\none\ntwo", first_line=1)

    happened = run(commands, tmp_path, dict(os.environ), 10)

    assert [one.status for one in happened] == [one.status for one in commands] == [0, 0, 1, 0]
    assert happened[1].output.strip() == str(tmp_path / "a")
    assert all(agrees(said.output, done.output) for said, done in zip(commands, happened, strict=True))


def test_what_a_session_started_ends_with_it_even_if_someone_interrupts_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"

    def interrupted(_shell: object, timeout: float) -> None:
        assert timeout == 10
        eventually(told.exists, "it never started")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(typed("$ sleep 60 & echo $! > new; mv new told; wait", 1), tmp_path, dict(os.environ), 10)

    started = Path("/proc", told.read_text().strip(), "stat")
    eventually(lambda: not started.exists() or ") Z " in started.read_text(), "what it started still runs")


def test_every_page_stands_in_the_navigation_and_the_navigation_names_no_other() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    named = [page for section in config["project"]["nav"] for listed in section.values() for page in listed]

    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    notes = {page for page in pages if page.startswith("design/")}  # for contributors: linked, and not in the menu
    assert sorted(named) == sorted(pages - notes)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_pages_beside_the_documentation_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)", text)

    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


def test_every_picture_that_a_page_shows_is_there_and_no_other_and_all_are_small() -> None:
    there = {path.name: path.read_bytes() for path in pictures.IMAGES.glob("*.png")}
    widths = {name: png.size(content)[0] for name, content in there.items()}

    assert sorted(there) == sorted(pictures.wanted()), "./run docs --pictures"
    assert sum(map(len, there.values())) < pictures.MOST_BYTES
    assert {name: width for name, width in widths.items() if width > 1200} == {}


def test_a_picture_of_few_colours_stays_as_it_is_however_its_lines_are_noted() -> None:
    seen = png.Picture(4, 5, tuple(bytes([7 * at % 251, at, 255 - at]) for at in range(20)))
    whole = png.written(seen)
    head, lines = struct.pack(">IIBBBBB", 4, 5, 8, 2, 0, 0, 0), bytearray()
    for kind in range(5):  # the five ways in which a line can be noted, each guessing from its neighbours
        line = b"".join(seen.pixels[4 * kind : 4 * kind + 4])
        above = b"".join(seen.pixels[4 * kind - 4 : 4 * kind]) or bytes(12)
        lines += bytes([kind]) + bytes((line[at] - guess(kind, line, above, at)) & 255 for at in range(12))
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(lines))), (b"IEND", b""))
    noted = png.SIGNATURE + b"".join(
        struct.pack(">I", len(content)) + kind + content + b"____" for kind, content in parts
    )

    assert png.read(noted) == seen
    assert png.size(whole) == (4, 5)
    dots = zlib.decompress(whole[whole.index(b"IDAT") + 4 : -16])
    palette = whole[whole.index(b"PLTE") + 4 :]
    assert [palette[3 * dot : 3 * dot + 3] for at, dot in enumerate(dots) if at % 5] == list(seen.pixels)


def guess(kind: int, line: bytes, above: bytes, at: int) -> int:
    """What a byte is taken to be, going by the one to its left, the one above, and the one above that."""
    left, up, corner = (line[at - 3], above[at], above[at - 3]) if at >= 3 else (0, above[at], 0)
    nearest = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
    return (0, left, up, (left + up) // 2, nearest)[kind]
