"""What bubblewrap is told, written out in full for a few cages.

To write the pages anew: PADDOCK_WRITE_GOLDEN=1 ./run test tests/cage/plan/test_bubblewrap.py, then read
the difference.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cage.plan.pretend import DEBIAN, ROOT, PretendMachine, caged
from tests.cage.plan.rendering import page, zygote_page

from paddock.cage.plan.bwrap_arguments import build_command, load_cage_assets
from paddock.cage.spec import BindMount, CageSpec, ResourceLimits, SymbolicLink

GOLDEN = Path(__file__).parent / "golden"

FILES = ("exec:awk:/opt/data/in", "write:fs:/opt/data/out", "read:fs:project:/notes")
HOSTS = ("net:api.example.com:443", "net:db.example.com:*", "net:localhost:8080", "net:10.0.0.5:5432")
ZYGOTE = CageSpec(
    cage_id="zygote-1",
    plugin="",
    command=(),
    directory="/",
    environment={"LANG": "C.UTF-8"},
    binds=(
        BindMount("/usr/bin/python3.11", "/usr/bin/python3.11"),
        BindMount("/srv/paddock/plugins", "/srv/paddock/plugins"),
    ),
    links=(SymbolicLink("/lib", "usr/lib"),),
)

PAGES: dict[str, Callable[[], str]] = {
    "python_without_grants": lambda: page(caged()),
    "shell_with_programs_and_files": lambda: page(caged(*FILES, command=("bash", "./tool.sh"))),
    "every_form_of_net": lambda: page(caged(*HOSTS)),
    "everything_granted": lambda: page(caged("read:fs:/", "write:fs:config:/memory", "net:*")),
    "zygote": lambda: zygote_page(ZYGOTE),
}


@pytest.mark.req("G-19", "the documented steps")
@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_cage_is_built_exactly_as_written_down(name: str) -> None:
    written = PAGES[name]()
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("PADDOCK_WRITE_GOLDEN"):
        file.write_text(written, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("name", [name for name in PAGES if name != "zygote"])
def test_no_grant_takes_a_wall_away(name: str) -> None:
    told = PAGES[name]().splitlines()
    walls = [
        "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
        "--unshare-cgroup-try", "--uid 65534", "--gid 65534", "--die-with-parent", "--new-session", "--clearenv",
        "--cap-drop ALL", "--remount-ro /proc", "--remount-ro /dev", "--remount-ro /",
    ]  # fmt: skip
    assert [wall for wall in walls if wall not in told] == []
    assert any(line.startswith("--seccomp ") for line in told)
    assert not any(line.startswith(("--bind / ", "--ro-bind / ", "--dev-bind", "--share-net")) for line in told)


def test_memory_that_looks_like_a_disk_is_bounded_too() -> None:
    told = page(replace(caged(), limits=ResourceLimits(tmp_bytes=1234)))
    assert told.count("  --size 1234\n  --perms 1777\n--tmpfs") == 2


def test_what_is_inside_is_mounted_after_what_is_around_it() -> None:
    root = "/srv/paddock/data/plugins/notes"
    machine = PretendMachine({**DEBIAN, f"{root}/main.py": "-"})
    grants = ("read:fs:/opt/data", "write:fs:/opt/data/out", "read:fs:/srv")
    told = page(caged(*grants, root=root, machine=machine)).splitlines()
    order = [
        "--ro-bind /opt/data /opt/data",
        "--bind /opt/data/out /opt/data/out",
        "--ro-bind /srv /srv",
        "--tmpfs /srv/paddock/data",
        f"--ro-bind {root} {root}",
        "--remount-ro /srv/paddock/data",
    ]
    assert [line for line in told if line in order] == order


def test_a_file_of_etc_that_was_granted_replaces_the_cages_own() -> None:
    told = page(caged("read:fs:/etc/hosts"))
    assert "--ro-bind /etc/hosts /etc/hosts" in told
    assert not [line for line in told.splitlines() if line.startswith("--file") and line.endswith("/etc/hosts")]


def test_a_variable_that_puts_code_before_the_walls_is_set_behind_them() -> None:
    told = page(caged(env={"LD_PRELOAD": f"{ROOT}/evil.so", "LC_TIME": "C", "GLIBC_TUNABLES": "x"}))
    early = [line for line in told.splitlines() if line.startswith("--setenv")]
    assert early == ["--setenv LANG C.UTF-8", "--setenv LC_TIME C"]
    assert f"    set LD_PRELOAD={ROOT}/evil.so\n" in told


def test_a_script_runs_in_the_interpreter_that_raised_the_walls_and_a_program_replaces_it() -> None:
    interpreter, *lean, _, mode, script = build_command(caged())
    assert (interpreter, lean, mode, script) == (
        "/usr/bin/python3",
        ["-I", "-S", "-B", "-c"],
        "python",
        f"{ROOT}/main.py",
    )
    interpreter, *_, mode, program = build_command(caged(command=("bash", "./tool.sh")))
    assert (interpreter, mode, program) == ("/opt/interpreter/bin/python3.12", "exec", "/usr/bin/bash")


@pytest.mark.parametrize("words", [("bash", "./tool.sh", "--key=canary"), ("python3", "./main.py", "--key=canary")])
def test_arguments_are_not_on_the_command_line_of_bubblewrap(words: tuple[str, ...]) -> None:
    told = page(caged(command=words))
    (place,) = [line for line in told.splitlines() if "canary" in line]
    assert place == "    word --key=canary"


def test_this_machine_has_a_filter_and_the_trampoline_compiles() -> None:
    ready = load_cage_assets()
    assert len(ready.seccomp) % 8 == 0
    assert sorted(ready.init_files) == [
        f"/.cage/__pycache__/trampoline.{sys.implementation.cache_tag}.pyc",
        "/.cage/trampoline.py",
    ]


def test_the_compiled_trampoline_is_used_where_it_fits_and_its_text_elsewhere(tmp_path: Path) -> None:
    for path, content in load_cage_assets().init_files.items():
        file = tmp_path / path.removeprefix("/.cage/")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    (tmp_path / "trampoline.py").write_text("EXIT_REFUSED = 'of the text'")
    ask = "import sys; sys.path.insert(0, '.'); import trampoline; print(trampoline.EXIT_REFUSED)"

    def imported() -> str:
        return subprocess.check_output([sys.executable, "-I", "-S", "-c", ask], cwd=tmp_path, text=True).strip()

    assert imported() == "125"
    (tmp_path / "__pycache__").rename(tmp_path / "of another version")
    assert imported() == "of the text"
