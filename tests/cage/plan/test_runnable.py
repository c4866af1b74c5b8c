"""Which programs a command may name, what is shown for them, and that nothing is shown because a package names it."""

from __future__ import annotations

import pytest
from tests.cage.plan.pretend import DEBIAN, ROOT, PretendMachine, caged, refusals, shown

from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.spec import CageSpec, SymbolicLink
from paddock.core.ids import PluginName
from paddock.manifest.model import Dialect, Manifest


def test_only_the_commands_own_program_may_run() -> None:
    spec = caged()
    assert spec.executables == ("/usr/bin/python3.11",)
    assert "/usr/bin/bash" not in shown(spec)


def test_an_exec_grant_adds_one_program_by_every_name_that_leads_to_it() -> None:
    spec = caged("exec:awk:/opt/data/in")
    assert spec.executables == ("/usr/bin/mawk", "/usr/bin/python3.11")
    assert SymbolicLink("/usr/bin/awk", "/etc/alternatives/awk") in spec.links
    assert "/etc/alternatives" in shown(spec), "the link after it"
    assert shown(spec)["/opt/data/in"] is False, "the place to run it in"


@pytest.mark.req("G-47", "the named place")
def test_a_program_for_any_place_shows_no_place() -> None:
    assert set(shown(caged("exec:git:/"))) - set(shown(caged())) == {"/usr/bin/git", "/etc/ssl/certs"}


def test_a_program_runs_without_a_place_that_does_not_exist_and_not_at_all_when_it_is_missing_itself() -> None:
    assert "/usr/bin/git" in caged("exec:git:/opt/nowhere").executables
    assert refusals("exec:jq:/") == {"exec:jq:/": "cage.program_missing"}


def test_a_script_among_the_programs_brings_its_interpreter_and_its_package() -> None:
    spec = caged("exec:npx:/")
    assert {"/usr/lib/node_modules/npm/bin/npx-cli.js", "/usr/bin/env", "/usr/bin/node"} <= set(spec.executables)
    assert "/usr/lib/node_modules/npm" in shown(spec)


@pytest.mark.parametrize(
    ("command", "first", "executables"),
    [
        (("bash", "./tool.sh"), "/usr/bin/bash", ["/usr/bin/bash"]),
        (("/usr/bin/env", "bash", "./tool.sh"), "/usr/bin/bash", ["/usr/bin/bash"]),
        (("/bin/bash", "./tool.sh"), "/bin/bash", ["/usr/bin/bash"]),
        (("./tool.sh",), f"{ROOT}/tool.sh", [f"{ROOT}/tool.sh", "/usr/bin/bash", "/usr/bin/env"]),
        ((f"{ROOT}/tool.py",), f"{ROOT}/tool.py", [f"{ROOT}/tool.py", "/usr/bin/python3.11"]),
    ],
)
def test_a_command_may_be_named_in_every_usual_way(
    command: tuple[str, ...], first: str, executables: list[str]
) -> None:
    spec = caged(command=command)
    assert spec.command[0] == first
    assert list(spec.executables) == executables


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ((), "cage.no_command"),
        (("env",), "cage.no_command"),
        (("env", "-i", "bash"), "cage.command_unclear"),
        (("env", "A=1", "bash"), "cage.command_unclear"),
        (("../other/tool",), "cage.command_unclear"),
        (("ruby", "./main.rb"), "cage.program_missing"),
        (("/opt/ruby",), "cage.program_missing"),
        (("./absent.sh",), "cage.program_missing"),
        (("./unmarked.sh",), "cage.not_executable"),
        (("bash", "nul\0"), "cage.command_unclear"),
    ],
)
def test_a_command_that_cannot_run_is_refused_before_anything_starts(command: tuple[str, ...], code: str) -> None:
    assert refusals(command=command) == {"runtime.command": code}


VENV = ("/opt/venv/bin/python", "./main.py")


def test_a_granted_virtual_environment_runs_with_the_interpreter_it_was_made_from() -> None:
    spec = caged("read:fs:/opt/venv", "read:fs:/opt/interpreter", command=VENV)
    assert spec.command[0] == "/opt/venv/bin/python", "by this name the interpreter finds its environment"
    assert spec.executables == ("/opt/interpreter/bin/python3.12",)
    # One made from the machine's own needs no more than itself granted.
    machine = PretendMachine({**DEBIAN, "/opt/venv/bin/python3": "-> /usr/bin/python3"})
    spec = caged("read:fs:/opt/venv", command=VENV, machine=machine)
    assert {"/opt/venv", "/usr/bin/python3.11", "/usr/lib/python3.11"} <= set(shown(spec))
    assert spec.trampoline == "/usr/bin/python3.11"


COPIED = {**DEBIAN, "/opt/venv/bin/python3": "*", "/opt/venv/pyvenv.cfg": "home = /opt/interpreter/bin\nversion = 3"}


def test_an_environment_with_a_copied_interpreter_also_needs_the_one_it_was_copied_from() -> None:
    machine = PretendMachine({**COPIED, "/opt/interpreter/bin/python3": "-> python3.12"})
    spec = caged("read:fs:/opt/venv", "read:fs:/opt/interpreter", command=VENV, machine=machine)
    assert {"/opt/venv", "/opt/interpreter"} <= set(shown(spec))
    assert refusals("read:fs:/opt/venv", command=VENV, machine=machine) == {"runtime.command": "cage.program_elsewhere"}

    machine = PretendMachine({**COPIED, "/opt/venv/pyvenv.cfg": "home = /usr/bin"})
    spec = caged("read:fs:/opt/venv", command=VENV, machine=machine)
    assert {"/opt/venv", "/usr/lib/python3.11"} <= set(shown(spec))


@pytest.mark.parametrize(
    "home", ["/opt/venv/bin", "/opt/other/bin", "/srv/paddock/data", "/etc", "../../interpreter/bin", "/nowhere", ""]
)
def test_what_an_environment_calls_its_interpreter_shows_nothing_else_of_the_host(home: str) -> None:
    other = {"/opt/other/bin/python3": "*", "/opt/other/pyvenv.cfg": "home = /opt/venv/bin"}
    machine = PretendMachine({**COPIED, **other, "/opt/venv/pyvenv.cfg": f"home = {home}"})
    plain = caged("read:fs:/opt/venv", command=VENV, machine=PretendMachine({**COPIED, "/opt/venv/pyvenv.cfg": "-"}))
    assert shown(caged("read:fs:/opt/venv", command=VENV, machine=machine)) == shown(plain)


@pytest.mark.parametrize(
    ("files", "command", "code"),
    [
        ({}, VENV, "program_elsewhere"),
        ({"/opt/venv/bin/python3": "-> /usr/bin/python3"}, VENV, "program_elsewhere"),
        ({}, ("/opt/../opt/venv/bin/python",), "program_elsewhere"),
        ({}, ("/usr/bin/../../opt/venv/bin/python",), "program_elsewhere"),
        ({f"{ROOT}/tool": "* #!/opt/venv/bin/python"}, ("./tool",), "program_elsewhere"),
        ({f"{ROOT}/tool": "* #!/usr/bin/env /opt/venv/bin/python"}, ("./tool",), "program_elsewhere"),
        ({f"{ROOT}/tool": "* #!../../../opt/venv/bin/python"}, ("./tool",), "program_missing"),
        ({f"{ROOT}/bin": "-> /opt/venv/bin"}, ("./bin/python",), "program_missing"),
        ({"/srv/paddock/data/other": "*"}, ("/srv/paddock/data/other",), "hidden_path"),
        ({"/srv/paddock/data/other": "*", "/usr/bin/other": "-> /srv/paddock/data/other"}, ("other",), "hidden_path"),
        ({"/proc/self/exe": "*"}, ("/proc/self/exe",), "hidden_path"),
        ({"/srv/paddock/plugins/other/tool": "*"}, ("/srv/paddock/plugins/other/tool",), "program_elsewhere"),
    ],
)
def test_no_file_of_the_host_is_shown_because_a_package_calls_it_its_program(
    files: dict[str, str], command: tuple[str, ...], code: str
) -> None:
    assert refusals(command=command, machine=PretendMachine({**DEBIAN, **files})) == {"runtime.command": f"cage.{code}"}


def test_paddocks_own_directories_hold_no_program_even_for_who_may_read_everything() -> None:
    machine = PretendMachine({**DEBIAN, "/srv/paddock/data/other": "*", "/tmp/other": "*"})
    for place, code in (("/srv/paddock/data", "hidden_path"), ("/tmp", "program_elsewhere")):
        found = refusals("read:fs:/", command=(f"{place}/other",), machine=machine)
        assert found == {"runtime.command": f"cage.{code}"}


def test_an_interpreter_may_lie_anywhere_if_the_machine_has_it_among_its_programs() -> None:
    machine = PretendMachine({**DEBIAN, "/usr/local/bin/python3": "-> /opt/venv/bin/python"})
    for command in (("python3", "./main.py"), ("/usr/local/bin/python3", "./main.py")):
        spec = caged(command=command, machine=machine)
        assert {"/opt/venv", "/opt/interpreter/lib", "/opt/interpreter/bin/python3.12"} <= set(shown(spec))
        assert spec.command[0] == "/usr/local/bin/python3"


@pytest.mark.req("G-47", "the named place")
def test_a_program_in_a_granted_place_runs_and_brings_nothing_that_lies_beside_that_place() -> None:
    files = {"/home/ada/bin/python3": "*", "/home/ada/lib/secret": "-", "/home/ada/pyvenv.cfg": "-"}
    command = ("/home/ada/bin/python3", "./main.py")
    for grant in ("read:fs:/home/ada/bin", "write:fs:/home/ada/bin", "exec:git:/home/ada/bin"):
        spec = caged(grant, command=command, machine=PretendMachine({**DEBIAN, **files}))
        assert "/home/ada/bin/python3" in spec.executables
        assert {path for path in shown(spec) if path.startswith("/home")} <= {
            "/home/ada/bin",
            "/home/ada/bin/python3",
        }
        assert spec.trampoline == "/opt/interpreter/bin/python3.12", "it may be the plugin's own work"


def test_a_script_may_be_run_by_a_program_of_its_own_package() -> None:
    files = {f"{ROOT}/run": f"* #!{ROOT}/own", f"{ROOT}/own": "* #!/usr/bin/env ./run"}
    spec = caged(command=("./run",), machine=PretendMachine({**DEBIAN, **files}))
    assert set(spec.executables) == {f"{ROOT}/run", f"{ROOT}/own", "/usr/bin/env"}


def compile_for_host(command: tuple[str, ...]) -> CageSpec:
    """The cage of a plugin that names no command, with one of the host's."""
    return compile_cage(
        cage_id="cage-1",
        manifest=Manifest(name=PluginName("notes"), version="1.0.0", dialect=Dialect.NATIVE),
        root=ROOT,
        capabilities=[],
        environment={},
        host_paths=HostPaths(python="/opt/interpreter/bin/python3.12"),
        filesystem=PretendMachine(),
        command=command,
    )


def test_what_the_host_itself_runs_may_lie_anywhere() -> None:
    spec = compile_for_host(("/opt/venv/bin/python", "-m", "worker"))
    assert {"/opt/venv", "/opt/interpreter/lib"} <= set(shown(spec))


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        # Everything in /usr/lib, and lib64 only another name for it.
        (
            {"/lib": "-> usr/lib", "/lib64": "-> usr/lib", "/usr/lib64": "-> lib", "/usr/lib/libc.so.6": "-"},
            {"/usr/lib"},
        ),
        # Nothing merged, and another C library.
        ({"/lib/ld-musl-x86_64.so.1": "-", "/usr/lib/libz.so": "-"}, {"/lib", "/usr/lib"}),
        # Two directories for two widths.
        ({"/usr/lib/systemd": ".", "/usr/lib64/libc.so.6": "-", "/lib64": "-> usr/lib64"}, {"/usr/lib", "/usr/lib64"}),
    ],
)
def test_libraries_are_found_however_a_distribution_arranges_them(machine: dict[str, str], expected: set[str]) -> None:
    elsewhere = {path: entry for path, entry in DEBIAN.items() if not path.startswith(("/lib", "/usr/lib"))}
    spec = caged("exec:bash:/", command=("bash",), machine=PretendMachine({**elsewhere, **machine}))
    assert {path for path in shown(spec) if path.startswith(("/lib", "/usr/lib"))} == expected
    links = {path: entry.removeprefix("-> ") for path, entry in machine.items() if entry.startswith("->")}
    assert links.items() <= {link.path: link.target for link in spec.links}.items()


def test_a_program_outside_the_plugins_own_search_path_is_found_by_its_name_all_the_same() -> None:
    machine = PretendMachine({**{path: entry for path, entry in DEBIAN.items() if path != "/bin"}, "/bin/jq": "*"})
    spec = caged("exec:jq:/", machine=machine)
    assert "/bin/jq" in spec.executables
    assert SymbolicLink("/usr/bin/jq", "/bin/jq") in spec.links


def test_only_the_interpreters_own_version_is_shown() -> None:
    assert "/usr/lib/python3.11" in shown(caged())
    assert "/usr/lib/python3.9" not in shown(caged())


def test_a_link_that_is_changed_meanwhile_is_shown_as_it_was_judged() -> None:
    class Swapped(PretendMachine):
        def link(self, path: str) -> str:
            found = super().link(path)
            self.files[path] = "-> /etc/shadow"
            return found

    command = ("/bin/bash", "./tool.sh")  # the way to it is gone several times: judged, shown and rebuilt
    assert caged(command=command, machine=Swapped()) == caged(command=command)
