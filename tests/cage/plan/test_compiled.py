"""Cages compiled from grants on this machine, built for real: what the plugin inside sees, can do and cannot."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.granted_paths import GrantRoots
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import WardenClient, open_warden
from paddock.core.ids import PluginName
from paddock.manifest.capability import parse_capability
from paddock.manifest.model import CommandRuntime, Dialect, Manifest

SOURCES = Path(paddock.__file__).parents[1]
ATTEMPT = """
import os, sys
def attempt(action):
    try:
        return action()
    except OSError as error:
        return error.strerror
"""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int | None
    out: list[str]
    err: str


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin's folder in a small world of its own, and a way to run it in its cage."""

    root: Path
    world: Path
    warden: WardenClient

    def spec(self, *capabilities: str, command: tuple[str, ...], **runtime: Any) -> CageSpec:
        manifest = Manifest(PluginName("notes"), "1.0.0", Dialect.KAGED, runtime=CommandRuntime(command, **runtime))
        return compile_cage(
            cage_id="cage-1",
            manifest=manifest,
            root=str(self.root),
            capabilities=[parse_capability(text) for text in capabilities],
            environment=spawn_environment(manifest, str(self.root), "info"),
            host_paths=HostPaths(python=sys.executable, sdk=str(SOURCES), hidden=(str(self.world / "paddock"),)),
            filesystem=DiskFilesystem(),
            roots=GrantRoots(project=str(self.world / "project")),
        )

    async def run(self, *capabilities: str, command: tuple[str, ...], **runtime: Any) -> Ended:
        return await self.run_spec(self.spec(*capabilities, command=command, **runtime))

    async def run_python(self, script: str, *capabilities: str) -> Ended:
        (self.root / "main.py").write_text(ATTEMPT + script)
        return await self.run(*capabilities, command=("python3", "./main.py"))

    async def run_spec(self, spec: CageSpec) -> Ended:
        process = await self.warden.launch(spec)
        os.close(process.stdin)
        out, err, ended = await asyncio.wait_for(
            asyncio.gather(_all_of(process.stdout), _all_of(process.stderr), process.wait()), 30
        )
        return Ended(ended.code, out.splitlines(), err)


async def _all_of(descriptor: int) -> str:
    """Everything until the other end is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    try:
        return (await reader.read()).decode()
    finally:
        transport.close()


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A project, something beside it, and Paddock's own directory."""
    world = tmp_path.resolve()
    (world / "paddock" / "plugins" / "notes").mkdir(parents=True)
    (world / "paddock" / "paddock.db").write_text("secrets of others")
    (world / "project").mkdir()
    (world / "project" / "today.md").write_text("shown")
    (world / "beside").mkdir()
    (world / "beside" / "file").write_text("hidden")
    # The daemon of this test may be root, whose plugins are nobody: what is not for everyone is not for them.
    for place in (world, *world.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
    return world


@pytest.fixture
async def plugin(world: Path) -> AsyncIterator[Plugin]:
    async with open_warden() as warden:
        yield Plugin(world / "paddock" / "plugins" / "notes", world, warden)


def program(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text)
    (root / name).chmod(0o755)


# --- every usual kind of command


@pytest.mark.parametrize(
    "command",
    [
        ("bash", "./tool.sh", "a b"),
        ("/usr/bin/env", "bash", "./tool.sh", "a b"),
        ("/bin/bash", "tool.sh", "a b"),
        ("./tool.sh", "a b"),
        ("sh", "-c", 'echo "said $0" "$HOME"', "a b"),
        ("python3", "./tool.py", "a b"),
        ("python3", "-u", "./tool.py", "a b"),
        ("./tool.py", "a b"),
    ],
)
async def test_a_command_runs_however_it_is_named(plugin: Plugin, command: tuple[str, ...]) -> None:
    program(plugin.root, "tool.sh", '#!/usr/bin/env bash\necho "said $1" "$KAGED_PLUGIN_DIR"\n')
    program(plugin.root, "tool.py", "#!/usr/bin/env python3\nimport os, sys, paddock_sdk, ssl, sqlite3\n"
            "print('said', sys.argv[1], os.environ['KAGED_PLUGIN_DIR'])\n")  # fmt: skip
    ended = await plugin.run(command=command)
    assert (ended.code, ended.out) == (0, [f"said a b {plugin.root}"]), ended.err


async def test_a_program_for_node_runs(plugin: Plugin) -> None:
    if shutil.which("node", path="/usr/local/bin:/usr/bin") is None:
        pytest.skip("this machine has no node")
    (plugin.root / "main.js").write_text("console.log('said', require('os').userInfo().username, 6 * 7)")
    ended = await plugin.run(command=("node", "./main.js"))
    assert (ended.code, ended.out) == (0, ["said nobody 42"]), ended.err


@pytest.fixture
def environment(world: Path) -> Path:
    """A virtual environment of the machine's own Python, with one module in it."""
    environment = world / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(environment)], check=True, timeout=60)
    (modules,) = environment.glob("lib/python3*/site-packages")
    (modules / "only_here.py").write_text("NAME = 'found'")
    return environment


async def test_a_granted_virtual_environment_keeps_its_modules(plugin: Plugin, environment: Path) -> None:
    (plugin.root / "main.py").write_text("import only_here, sys; print(only_here.NAME, sys.prefix)")
    ended = await plugin.run(f"read:fs:{environment}", command=(f"{environment}/bin/python", "./main.py"))
    assert (ended.code, ended.out) == (0, [f"found {environment}"]), ended.err


async def test_a_virtual_environment_is_not_shown_because_a_script_names_it(plugin: Plugin, environment: Path) -> None:
    program(plugin.root, "tool.py", f"#!{environment}/bin/python3\nprint('ran')\n")
    with pytest.raises(CageUnavailable) as refused:
        plugin.spec(command=("./tool.py",))
    assert refused.value.error_code == "cage.program_elsewhere"


# --- files


@pytest.mark.req("G-17", "links")
async def test_a_granted_place_is_seen_and_what_is_beside_it_is_not(plugin: Plugin) -> None:
    (plugin.world / "project" / "way-out").symlink_to(plugin.world / "beside")
    ended = await plugin.run_python(
        f"world = {str(plugin.world)!r}\n"
        "print(open(world + '/project/today.md').read())\n"
        "for path in ('/beside/file', '/project/way-out/file', '/paddock/paddock.db'):\n"
        "    print(attempt(lambda: open(world + path).read()))\n"
        "print(attempt(lambda: open(world + '/project/today.md', 'w')))\n",
        "read:fs:project:/",
    )
    missing = "No such file or directory"
    assert ended.out == ["shown", missing, missing, missing, "Read-only file system"], ended.err


@pytest.mark.req("G-49", "nothing persists")
async def test_what_is_written_to_a_granted_place_stays_and_all_else_is_gone(plugin: Plugin) -> None:
    note = plugin.world / "project" / "note"
    script = (
        f"open({str(note)!r}, 'w').write('kept')\n"
        "open('/tmp/scratch', 'w').write('lost')\n"
        "print(attempt(lambda: open(os.environ['HOME'] + '/x', 'w')), attempt(lambda: open('/usr/x', 'w')))\n"
    )
    first = await plugin.run_python(script, "write:fs:project:/")
    second = await plugin.run_python("print(os.listdir('/tmp'))", "net:[]")
    assert first.out == ["Read-only file system Read-only file system"], first.err
    assert note.read_text() == "kept"
    assert "scratch" not in str(second.out)


async def test_no_set_user_id_file_is_left_behind_in_a_writable_place(plugin: Plugin) -> None:
    target = plugin.world / "project" / "planted"
    ended = await plugin.run_python(
        f"target = {str(target)!r}\n"
        "open(target, 'w').close()\n"
        "print(attempt(lambda: os.chmod(target, 0o6755)))\n"
        "print(attempt(lambda: os.open(target + '2', os.O_CREAT | os.O_WRONLY, 0o4755)))\n",
        "write:fs:project:/",
    )
    assert ended.out == ["Operation not permitted"] * 2, ended.err
    assert target.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) == 0


async def test_even_who_may_read_everything_does_not_see_the_host_itself(plugin: Plugin) -> None:
    ended = await plugin.run_python(
        f"world = {str(plugin.world)!r}\n"
        "print(sorted(set(os.listdir('/')) & {'sys', 'run', 'usr', 'etc'}))\n"
        "print(open('/etc/passwd').read().count(':x:'), len([n for n in os.listdir('/proc') if n.isdigit()]))\n"
        "print(attempt(lambda: os.listdir(world + '/paddock')), attempt(lambda: open(world + '/beside/file').read()))\n"
        "print(os.spawnv(os.P_WAIT, '/usr/bin/ls', ['ls', '/']))\n",
        "read:fs:/",
        f"read:fs:{plugin.world}",
    )
    # Two processes: bubblewrap's own first one, and the plugin.
    assert ended.out == ["['etc', 'usr']", "1 2", "['plugins'] hidden", "127"], ended.err


# --- programs


@pytest.mark.req("G-47", "the named program")
async def test_only_granted_programs_exist_and_run(plugin: Plugin) -> None:
    script = "echo 1 | awk '{print $1 + 1}'; for name in sed python3 perl; do command -v $name; done; echo end"
    ended = await plugin.run("exec:awk:/", command=("bash", "-c", script))
    assert ended.out == ["2", "end"], ended.err


async def test_the_interpreter_of_the_walls_can_be_neither_run_nor_read(plugin: Plugin) -> None:
    spec = plugin.spec("exec:cat:/", command=("bash", "./tool.sh"))
    loader = "/lib64/ld-linux-x86-64.so.2" if os.uname().machine == "x86_64" else "/lib/ld-linux-aarch64.so.1"
    program(plugin.root, "tool.sh", f"{spec.trampoline} -c 'print(1)'\n{loader} {spec.trampoline} -c 'print(2)'\n"
            f"cat {spec.trampoline} | (read -r -n1 x && echo $x)\necho end\n")  # fmt: skip
    ended = await plugin.run_spec(spec)
    assert ended.out == ["end"]
    assert ended.err.count("Permission denied") == 3


@pytest.mark.req("G-47", "nothing else")
async def test_what_the_plugin_writes_itself_cannot_be_executed(plugin: Plugin) -> None:
    script = "printf '#!/bin/bash\\necho ran\\n' > /tmp/x; chmod +x /tmp/x; /tmp/x; echo $?"
    ended = await plugin.run("exec:chmod:/", command=("bash", "-c", script))
    assert ended.out == ["126"]
    assert "Permission denied" in ended.err


# --- the rest


@pytest.mark.req("G-20", "what is documented and nothing more")
@pytest.mark.parametrize("capabilities", [(), ("read:fs:project:/",)])
async def test_the_environment_is_what_is_documented_and_nothing_more(
    plugin: Plugin, capabilities: tuple[str, ...]
) -> None:
    (plugin.root / "main.py").write_text("import os\nfor item in sorted(os.environ.items()): print(*item)")
    env = {"MODE": "fast", "KAGED_PLUGIN_NAME": "forged"}
    ended = await plugin.run(*capabilities, command=("python3", "./main.py"), env=env)
    root = plugin.root
    assert ended.out == [
        f"HOME {root}", "KAGED_API_VERSION 1", "KAGED_LOG_LEVEL info", f"KAGED_PLUGIN_DIR {root}",
        "KAGED_PLUGIN_NAME notes", "LANG C.UTF-8", "MODE fast", "PATH /usr/bin:/usr/local/bin",
        "PYTHONPATH /.cage/lib", "TMPDIR /tmp",
    ], ended.err  # fmt: skip


async def test_a_library_that_the_manifest_loads_into_every_program_is_not_loaded_before_the_walls(
    plugin: Plugin,
) -> None:
    # The loader complains about a library that is not there, once for each program it starts.
    env = {"LD_PRELOAD": f"{plugin.root}/absent.so"}
    ended = await plugin.run(command=("bash", "-c", "echo ran"), env=env)
    assert ended.out == ["ran"]
    assert ended.err.count("absent.so") == 1


@pytest.mark.req("G-49", "system calls")
@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("socket.socket(socket.AF_UNIX)", "Address family not supported by protocol"),
        ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "Operation not permitted"),
        ("socket.create_connection(('192.0.2.1', 80), 2)", "Network is unreachable"),
        ("os.chroot('/')", "Operation not permitted"),
        ("os.memfd_create('x', 0)", "Function not implemented"),
        ("open('/proc/sys/kernel/core_pattern', 'w')", "Read-only file system"),
        ("open('/proc/1/environ').read()", "Permission denied"),
    ],
)
async def test_a_system_call_out_of_the_cage_fails(plugin: Plugin, action: str, answer: str) -> None:
    ended = await plugin.run_python(f"import socket\nprint(attempt(lambda: {action}))")
    assert ended.out == [answer], ended.err


@pytest.mark.req("G-17", "links")
async def test_a_place_whose_name_a_link_took_after_it_was_looked_at_is_not_mounted(plugin: Plugin) -> None:
    secret, granted = plugin.world / "secret", plugin.world / "granted"
    secret.mkdir()
    granted.mkdir()
    for mode in ("read", "write"):
        spec = plugin.spec(f"{mode}:fs:{granted}", command=("python3", "./main.py"))
        granted.rmdir()
        granted.symlink_to(secret)
        with pytest.raises(CageUnavailable):
            await plugin.run_spec(spec)
        granted.unlink()
        granted.mkdir()


async def test_a_plugin_reads_its_own_private_folder_whoever_the_daemon_is(plugin: Plugin) -> None:
    own = plugin.world / "project"
    own.chmod(0o700)
    (own / "note").write_text("mine")
    (own / "note").chmod(0o600)
    (plugin.root / "main.py").write_text(f"print(open({str(own / 'note')!r}).read())")
    manifest = Manifest(PluginName("notes"), "1.0.0", Dialect.KAGED, runtime=CommandRuntime(("python3", "./main.py")))
    spec = compile_cage(
        cage_id="cage-1",
        manifest=manifest,
        root=str(plugin.root),
        capabilities=[parse_capability("read:fs:config:/")],
        environment=spawn_environment(manifest, str(plugin.root), "info"),
        host_paths=HostPaths(python=sys.executable, sdk=str(SOURCES)),
        filesystem=DiskFilesystem(),
        roots=GrantRoots(config=str(own)),
    )
    assert (await plugin.run_spec(spec)).out == ["mine"]
