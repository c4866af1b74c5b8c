"""The inner walls around a real process: limits, Landlock, and the script behind them."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import paddock.cage.confine
from paddock.cage.confine.init_config import build_init_config, landlock_rules, process_rlimits
from paddock.cage.spec import BindMount, CageSpec, ResourceLimits

ROOM = Path(paddock.cage.confine.__file__).parent
TRAMPOLINE = ROOM / "sandbox_init.py"
PYTHON = str(Path(sys.executable).resolve())

CONFINED = """
import sys
sys.path.insert(0, {room!r})
import sandbox_init
with open({orders!r}, "rb") as file:
    environment = sandbox_init.confine(file.read())
def attempt(action):
    try:
        return action()
    except OSError as error:
        return error.strerror
"""


def confined(tmp_path: Path, told: bytes, program: str) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python in a process that was confined first."""
    order_file = tmp_path / "orders"
    order_file.write_bytes(told)
    text = CONFINED.format(room=str(ROOM), orders=str(order_file)) + program
    return subprocess.run(
        [PYTHON, "-I", "-S", "-c", text], capture_output=True, text=True, timeout=30, check=False, cwd="/"
    )


def spec_for(*binds: BindMount, **changes: object) -> CageSpec:
    """A spec that still lets this machine's Python run, and shows what is given."""
    base = (
        BindMount("/usr", "/usr"),
        BindMount("/lib", "/lib"),
        BindMount("/lib64", "/lib64"),
        BindMount(sys.base_prefix, sys.base_prefix),
    )
    given = {"executables": (), "trampoline": "", "environment": {}, **changes}
    return CageSpec("cage-1", "notes", (), "/", binds=(*base, *binds), **given)  # pyright: ignore[reportArgumentType]


def test_behind_the_walls_only_what_is_shown_can_be_read_and_only_what_is_writable_written(tmp_path: Path) -> None:
    shown, hidden, writable = (tmp_path / name for name in ("shown", "hidden", "writable"))
    for place in (shown, hidden, writable):
        place.mkdir()
        (place / "file").write_text(place.name)
    told = build_init_config(
        spec_for(BindMount(str(shown), str(shown)), BindMount(str(writable), str(writable), writable=True)), {}
    )
    # The walls let the cage's own /tmp be written; here that is the machine's, where this test lives.
    told = b"".join(record + b"\0" for record in told.split(b"\0") if record and not record.endswith(b" /tmp"))
    done = confined(
        tmp_path,
        told,
        f"print(open({str(shown / 'file')!r}).read())\n"
        f"print(attempt(lambda: open({str(hidden / 'file')!r}).read()))\n"
        f"print(attempt(lambda: open({str(shown / 'file')!r}, 'w')))\n"
        f"print(open({str(writable / 'new')!r}, 'w').write('x'))\n",
    )
    assert done.stdout.splitlines() == ["shown", "Permission denied", "Permission denied", "1"], done.stderr


def test_behind_the_walls_only_the_named_programs_run(tmp_path: Path) -> None:
    true, false = Path("/usr/bin/true").resolve(), Path("/usr/bin/false").resolve()
    told = build_init_config(spec_for(executables=(str(true),)), {})
    run = "import os\nprint(os.spawnv(os.P_WAIT, {0!r}, [{0!r}]))\n"
    done = confined(tmp_path, told, run.format(str(true)) + run.format(str(false)) + run.format(PYTHON))
    # 127 is the child that could not become the program.
    assert done.stdout.splitlines() == ["0", "127", "127"], done.stderr


def test_the_interpreter_that_raises_the_walls_is_not_among_what_can_be_read_behind_them() -> None:
    spec = spec_for(BindMount("/opt/p/bin/python3", "/opt/p/bin/python3"), trampoline="/opt/p/bin/python3")
    assert "/opt/p/bin/python3" not in dict(landlock_rules(spec))


def test_limits_sink_and_cannot_be_raised_again(tmp_path: Path) -> None:
    limits = process_rlimits(
        ResourceLimits(open_files=64, write_bytes=1000, memory_bytes=1 << 30), memory=True, processes=False
    )
    done = confined(
        tmp_path,
        build_init_config(spec_for(), limits),
        "import resource\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))\n"
        "print(resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_DATA))\n",
    )
    assert done.stdout.splitlines() == ["(64, 64) (1, 1)", f"(1000, 1000) ({1 << 30}, {1 << 30})"], done.stderr


def test_a_limit_that_is_lower_already_stays_lower(tmp_path: Path) -> None:
    _, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = build_init_config(spec_for(), {resource.RLIMIT_NOFILE: ceiling + 1000})
    done = confined(tmp_path, told, "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])")
    assert done.stdout == f"{ceiling}\n", done.stderr


def test_memory_and_processes_are_limited_by_the_process_itself_only_where_nothing_better_does() -> None:
    better = process_rlimits(ResourceLimits(), memory=False, processes=False)
    alone = process_rlimits(ResourceLimits(), memory=True, processes=True)
    assert set(alone) - set(better) == {resource.RLIMIT_DATA, resource.RLIMIT_NPROC}
    assert resource.RLIMIT_AS not in alone
    assert (better[resource.RLIMIT_NOFILE], alone[resource.RLIMIT_NOFILE]) == (512, 128), "sockets hold memory too"


def test_an_order_that_is_not_understood_ends_everything(tmp_path: Path) -> None:
    done = confined(tmp_path, b"allow 12 /usr\0open the door\0", "print('ran')")
    assert "ran" not in done.stdout
    assert "not understood" in done.stderr


@pytest.mark.parametrize(
    ("obstacle", "failure"),
    [
        # A process can be under sixteen rule sets, and no more.
        ("for _ in range(15): sandbox_init.confine(b'')", "Landlock cannot be applied"),
        ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))", "Landlock cannot be used"),
    ],
)
def test_a_process_that_the_kernel_does_not_restrict_goes_no_further(
    tmp_path: Path, obstacle: str, failure: str
) -> None:
    done = confined(tmp_path, b"", f"{obstacle}\nprint('once more')\nsandbox_init.confine(b'')\nprint('ran')")
    assert (done.stdout, done.returncode) == ("once more\n", 1), done.stderr
    assert done.stderr.endswith(f"ConfinementFailed: {failure}\n")


def test_without_its_orders_the_plugin_does_not_run(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("print('ran')")
    done = subprocess.run(
        [PYTHON, "-I", "-S", str(TRAMPOLINE), "python", str(script)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("cage: ")


def test_variables_reach_the_program_byte_for_byte(tmp_path: Path) -> None:
    odd = {"EMPTY": "", "LINES": "a\nb", "EQUALS": "x=y=z", "WORDS": "ä b"}
    done = confined(tmp_path, build_init_config(spec_for(environment=odd), {}), "print(sorted(environment.items()))")
    assert done.stdout == f"{sorted((name.encode(), value.encode()) for name, value in odd.items())}\n"


# --- the script behind the walls


def run_script(tmp_path: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the trampoline does, without walls, and beside it as Python itself would."""
    file = tmp_path / "plugin" / "main.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(script)
    (file.parent / "beside.py").write_text("NAME = __name__\n")
    inside = f"import sys; sys.path.insert(0, {str(ROOM)!r}); import sandbox_init; sys.path.pop(0); "
    inside += f"sandbox_init.run_script({str(file)!r}, {list(arguments)!r})"
    ours, plain = (
        subprocess.run([PYTHON, *words], capture_output=True, text=True, timeout=30, check=False, env={})
        for words in (["-I", "-S", "-c", inside], ["-s", str(file), *arguments])
    )
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return ours


@pytest.mark.parametrize(
    "script",
    [
        "import sys\nprint(sys.argv, __name__, __file__, sys.path[0], len(sys.path))",
        "import beside, sys\nprint(beside.NAME, sys.modules['__main__'].__file__)",
        "import sys\nsys.exit(3)",
        "import sys\nsys.exit('no good')",
        "raise SystemExit",
        "def f():\n    raise ValueError('bad')\nf()",
        "print('half a line', end='')",
        "import atexit\natexit.register(print, 'bye')\nraise KeyError(1)",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()",
        "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))).__module__)",
        "this is no python",
        "import sys\nprint(sys.stdin.encoding, sys.stdout.encoding, sys.stdout.line_buffering)",
        "quit(7)",
    ],
)
def test_a_script_behind_the_walls_behaves_as_it_does_anywhere(tmp_path: Path, script: str) -> None:
    run_script(tmp_path, script, "one", "two")


def test_the_trampoline_is_lean_and_old_interpreters_can_read_it() -> None:
    text = TRAMPOLINE.read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))

    def imported(part: ast.AST) -> set[str]:
        return {alias.name for node in ast.walk(part) if isinstance(node, ast.Import) for alias in node.names}

    # Few cages are learning cages, and only those import more.
    (observed,) = [part for part in tree.body if getattr(part, "name", "") == "prepare_observed_start"]
    assert imported(observed) == {"ctypes", "_socket"}
    assert imported(tree) - imported(observed) <= {"os", "sys", "resource", "_ctypes", "site"}
