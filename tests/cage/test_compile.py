"""From grants to a cage: what is shown, what may run, and what is refused with everything that stands against it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cage.pretend import DEBIAN, ROOT, PretendMachine, caged

from paddock.cage.compile import SDK_PLACE, Surroundings, compile_cage
from paddock.cage.grants import Places, config_directories
from paddock.cage.launcher import CageUnavailable
from paddock.cage.spec import Bind, CageSpec, Link, PythonMain, Reach
from paddock.core.ids import PluginName
from paddock.manifest.capability import parse
from paddock.manifest.model import Dialect, Manifest


def shown(spec: CageSpec) -> dict[str, bool]:
    """Every bound path and whether it is writable."""
    return {bind.target: bind.writable for bind in spec.binds}


def refusals(*capabilities: str, **given: Any) -> dict[str, str]:
    """What stands against a cage: where it comes from, and its code."""
    with pytest.raises(CageUnavailable) as caught:
        caged(*capabilities, **given)
    return {problem["path"]: problem["code"] for problem in caught.value.details["problems"]}


def compile_for_host(command: tuple[str, ...]) -> CageSpec:
    """The cage of a plugin that names no command, with one of the host's."""
    return compile_cage(
        cage_id="cage-1",
        manifest=Manifest(name=PluginName("notes"), version="1.0.0", dialect=Dialect.NATIVE),
        root=ROOT,
        capabilities=[],
        environment={},
        surroundings=Surroundings(python="/opt/interpreter/bin/python3.12"),
        machine=PretendMachine(),
        command=command,
    )


# --- files


@pytest.mark.req("G-17", "grammar")
def test_a_grant_shows_that_place_and_nothing_beside_it() -> None:
    before = shown(caged())
    after = shown(caged("read:fs:/opt/data/in", "write:fs:/opt/data/out"))
    assert {path: writable for path, writable in after.items() if path not in before} == {
        "/opt/data/in": False,
        "/opt/data/out": True,
    }


@pytest.mark.req("G-17", "grammar")
def test_config_and_project_stand_for_the_folders_that_the_host_names() -> None:
    after = shown(caged("write:fs:config:/memory", "read:fs:project:/notes"))
    assert after["/srv/paddock/config/notes/memory"] is True
    assert after["/home/ada/notes"] is False


@pytest.mark.req("G-17", "grammar")
def test_without_a_project_a_project_path_is_refused_by_name() -> None:
    assert refusals("read:fs:project:/notes", "read:fs:config:/memory", places=Places()) == {
        "read:fs:project:/notes": "cage.no_project",
        "read:fs:config:/memory": "cage.no_config",
    }


def test_the_caller_is_told_which_configuration_folders_to_create_first() -> None:
    granted = [parse(text) for text in ("write:fs:config:/memory", "read:fs:config:/", "read:fs:/opt/data")]
    assert config_directories(granted, "/c/notes") == ["/c/notes", "/c/notes/memory"]


@pytest.mark.req("G-17", "links")
@pytest.mark.parametrize(
    "capability", ["read:fs:/opt/moved", "write:fs:/opt/moved/out", "read:fs:project:/shortcut", "read:fs:/bin/bash"]
)
def test_a_link_that_leads_out_of_what_was_granted_is_refused(capability: str) -> None:
    assert refusals(capability) == {capability: "cage.link_escapes"}


@pytest.mark.req("G-17", "links")
def test_the_folder_of_a_project_may_itself_be_reached_through_a_link() -> None:
    after = shown(caged("read:fs:project:/in", places=Places(project="/opt/moved")))
    assert after["/opt/data/in"] is False


@pytest.mark.req("G-17", "links")
def test_links_that_go_round_in_a_circle_lead_nowhere() -> None:
    assert refusals("read:fs:/opt/round") == {"read:fs:/opt/round": "cage.path_missing"}


@pytest.mark.req("G-17", "links")
def test_links_inside_a_granted_tree_are_left_to_lead_where_the_cage_lets_them() -> None:
    spec = caged("read:fs:/home/ada")
    assert "/home/ada" in shown(spec)
    assert "/etc" not in shown(spec)


@pytest.mark.req("G-18")
@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/sys/kernel", "/dev/null", "/run/docker.sock"])
def test_the_hosts_own_state_is_never_shown(path: str) -> None:
    assert refusals(f"read:fs:{path}") == {f"read:fs:{path}": "cage.forbidden_path"}


@pytest.mark.req("G-18")
def test_a_pipe_or_socket_of_the_host_is_neither_granted_nor_shown_among_what_is() -> None:
    machine = PretendMachine({**DEBIAN, "/etc/agent": "|", f"{ROOT}/pipe": "|"})
    assert refusals("read:fs:/etc/agent", machine=machine) == {"read:fs:/etc/agent": "cage.special_file"}
    assert "/etc/agent" not in shown(caged("read:fs:/etc", machine=machine))
    assert refusals(command=("./pipe",), machine=machine) == {"runtime.command": "cage.program_missing"}


@pytest.mark.req("G-18")
def test_reading_everything_goes_round_what_a_cage_has_of_its_own() -> None:
    spec = caged("read:fs:/")
    after = shown(spec)
    assert {"/home", "/usr", "/etc/shadow", "/etc/hostname"} <= set(after)
    assert not {"/", "/etc", "/etc/passwd", "/etc/hosts", "/tmp", "/proc", "/sys", "/dev", "/run"} & set(after)
    assert Link("/bin", "usr/bin") in spec.links
    # What can be seen is one thing, what may run another.
    assert spec.executables == ("/usr/bin/python3.11",)


@pytest.mark.req("G-18")
def test_a_grant_to_read_around_paddocks_own_directories_shows_them_empty() -> None:
    spec = caged("read:fs:/srv")
    assert spec.covers == ("/srv/paddock/config", "/srv/paddock/data")
    assert shown(spec)["/srv"] is False


@pytest.mark.req("G-18")
@pytest.mark.parametrize("path", ["/srv", "/srv/paddock", "/"])
def test_a_grant_to_write_around_paddocks_own_directories_is_refused_because_they_could_be_moved(path: str) -> None:
    refused = {f"write:fs:{path}": "cage.hidden_path"}
    machine = PretendMachine({**DEBIAN, "/home/notes/main.py": "-"})
    assert refusals(f"write:fs:{path}", root="/home/notes", machine=machine) == refused
    # Nor may a plugin be there first.
    fresh = {name: entry for name, entry in machine.files.items() if not name.startswith("/srv/paddock/")}
    machine = PretendMachine({**fresh, "/srv/paddock/other": "."})
    assert refusals(f"write:fs:{path}", root="/home/notes", machine=machine) == refused


@pytest.mark.req("G-18")
def test_a_grant_inside_paddocks_own_directories_is_refused() -> None:
    assert refusals("read:fs:/srv/paddock/data") == {"read:fs:/srv/paddock/data": "cage.hidden_path"}
    # Another plugin's configuration, too: only `config:` leads to one, and to one's own.
    other = "read:fs:/srv/paddock/config/notes/memory"
    assert refusals(other) == {other: "cage.hidden_path"}


@pytest.mark.req("G-18")
def test_no_grant_lets_a_plugin_change_its_own_package() -> None:
    machine = PretendMachine({**DEBIAN, "/home/ada/plugin/lib": ".", "/home/ada/plugin/main.py": "-"})
    for path in ("/home/ada/plugin", "/home/ada/plugin/lib"):
        found = refusals(f"write:fs:{path}", root="/home/ada/plugin", machine=machine)
        assert found == {f"write:fs:{path}": "cage.own_package"}
    # Around it neither: the folder that it is in could be renamed, and another put in its place.
    found = refusals("write:fs:/home/ada", root="/home/ada/plugin", machine=machine)
    assert found == {"write:fs:/home/ada": "cage.own_package"}
    assert shown(caged("write:fs:/home/ada/notes", root="/home/ada/plugin", machine=machine))["/home/ada/notes"]


def test_a_place_below_the_shared_temporary_directory_can_be_granted_but_not_all_of_it() -> None:
    assert shown(caged("write:fs:/tmp/shared"))["/tmp/shared"] is True
    assert refusals("write:fs:/tmp") == {"write:fs:/tmp": "cage.private_path"}


def test_a_narrower_grant_to_write_stands_inside_a_wider_one_to_read() -> None:
    after = shown(caged("read:fs:/opt/data", "write:fs:/opt/data/out", "read:fs:/opt/data/in"))
    assert after["/opt/data"] is False
    assert after["/opt/data/out"] is True
    assert "/opt/data/in" not in after, "the wider grant shows it already"


# --- programs


@pytest.mark.req("G-47")
def test_only_the_commands_own_program_may_run() -> None:
    spec = caged()
    assert spec.executables == ("/usr/bin/python3.11",)
    assert "/usr/bin/bash" not in shown(spec)


@pytest.mark.req("G-47")
def test_an_exec_grant_adds_one_program_by_every_name_that_leads_to_it() -> None:
    spec = caged("exec:awk:/opt/data/in")
    assert spec.executables == ("/usr/bin/mawk", "/usr/bin/python3.11")
    assert Link("/usr/bin/awk", "/etc/alternatives/awk") in spec.links
    assert "/etc/alternatives" in shown(spec), "the link after it"
    assert shown(spec)["/opt/data/in"] is False, "the place to run it in"


@pytest.mark.req("G-47")
def test_a_program_for_any_place_shows_no_place() -> None:
    assert set(shown(caged("exec:git:/"))) - set(shown(caged())) == {"/usr/bin/git"}


@pytest.mark.req("G-47")
def test_a_program_runs_without_a_place_that_does_not_exist_and_not_at_all_when_it_is_missing_itself() -> None:
    assert "/usr/bin/git" in caged("exec:git:/opt/nowhere").executables
    assert refusals("exec:jq:/") == {"exec:jq:/": "cage.program_missing"}


@pytest.mark.req("G-47")
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


@pytest.mark.req("G-47")
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


@pytest.mark.req("G-47")
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
    assert links.items() <= {link.path: link.to for link in spec.links}.items()


@pytest.mark.req("G-47")
def test_a_program_outside_the_plugins_own_search_path_is_found_by_its_name_all_the_same() -> None:
    machine = PretendMachine({**{path: entry for path, entry in DEBIAN.items() if path != "/bin"}, "/bin/jq": "*"})
    spec = caged("exec:jq:/", machine=machine)
    assert "/bin/jq" in spec.executables
    assert Link("/usr/bin/jq", "/bin/jq") in spec.links


def test_a_grant_that_would_take_thousands_of_binds_is_refused() -> None:
    crowded = PretendMachine({**DEBIAN, **{f"/etc/entry-{number}": "-" for number in range(1000)}})
    assert refusals("read:fs:/etc", machine=crowded) == {"capabilities": "cage.too_many_places"}


def test_only_the_interpreters_own_version_is_shown() -> None:
    assert "/usr/lib/python3.11" in shown(caged())
    assert "/usr/lib/python3.9" not in shown(caged())


# --- the inner walls and the warm start


def test_a_program_in_another_language_gets_the_hosts_python_for_the_walls_and_may_not_run_it() -> None:
    spec = caged(command=("bash", "./tool.sh"))
    assert spec.trampoline == "/opt/interpreter/bin/python3.12"
    assert spec.trampoline in shown(spec)
    assert spec.trampoline not in spec.executables


def test_an_interpreter_of_the_package_is_never_trusted_with_the_walls() -> None:
    machine = PretendMachine({**DEBIAN, f"{ROOT}/python3": "*"})
    spec = caged(command=("./python3", "./main.py"), machine=machine)
    assert spec.trampoline == "/opt/interpreter/bin/python3.12"
    assert spec.python is None


def test_a_python_script_without_files_may_start_warm() -> None:
    spec = caged("net:api.example.com:443", command=("python3", "./main.py", "--fast"))
    assert spec.python == PythonMain("/usr/bin/python3", f"{ROOT}/main.py", ("--fast",))
    assert spec.network == (Reach("api.example.com", 443),)


@pytest.mark.parametrize(
    ("capabilities", "command", "env"),
    [
        (("read:fs:/opt/data",), ("python3", "./main.py"), {}),
        (("exec:git:/",), ("python3", "./main.py"), {}),
        ((), ("python3", "-m", "main"), {}),
        ((), ("python3", "-u", "./main.py"), {}),
        ((), ("python3", "./absent.py"), {}),
        ((), ("python3", "./main.py"), {"PYTHONUTF8": "1"}),
        ((), ("bash", "./main.py"), {}),
        ((), ("./tool.py",), {}),
    ],
)
def test_whatever_a_warm_interpreter_might_do_differently_starts_cold(
    capabilities: tuple[str, ...], command: tuple[str, ...], env: dict[str, str]
) -> None:
    assert caged(*capabilities, command=command, env=env).python is None


# --- the rest


@pytest.mark.req("G-20")
def test_a_python_plugin_finds_the_sdk_unless_it_brings_its_own_path() -> None:
    spec = caged()
    assert Bind("/srv/paddock/lib/paddock_sdk", f"{SDK_PLACE}/paddock_sdk") in spec.binds
    assert spec.environment["PYTHONPATH"] == SDK_PLACE
    assert caged(command=("./tool.py",)).environment["PYTHONPATH"] == SDK_PLACE
    assert caged(env={"PYTHONPATH": "./vendor"}).environment["PYTHONPATH"] == "./vendor"
    assert "PYTHONPATH" not in caged(command=("bash", "./tool.sh")).environment


@pytest.mark.req("G-48")
def test_only_net_grants_open_the_network() -> None:
    assert caged("net:[]", "storage:write", "host:http").network == ()
    assert caged("net:*", "net:localhost:*").network == (Reach("*", None), Reach("localhost", None))


def test_a_command_starts_in_the_package_or_in_a_place_that_is_shown() -> None:
    assert caged().directory == ROOT
    assert caged("read:fs:/opt/data", cwd="/opt/data/in").directory == "/opt/data/in"
    assert refusals("read:fs:/srv", cwd="/srv/paddock/data") == {"runtime.cwd": "cage.directory_hidden"}
    assert refusals(cwd="/home/ada") == {"runtime.cwd": "cage.directory_hidden"}


def test_what_cannot_be_a_variable_is_refused() -> None:
    assert refusals(env={"A=B": "1"}) == {"runtime.env": "cage.bad_variable"}
    assert refusals(env={"A": "nul\0"}) == {"runtime.env": "cage.bad_variable"}


def test_everything_that_stands_against_a_cage_is_told_at_once() -> None:
    found = refusals(
        "read:fs:/opt/nowhere", "read:fs:/opt/moved", "exec:jq:/", command=("ruby", "x.rb"), cwd="/home/ada"
    )
    assert found == {
        "read:fs:/opt/nowhere": "cage.path_missing",
        "read:fs:/opt/moved": "cage.link_escapes",
        "exec:jq:/": "cage.program_missing",
        "runtime.command": "cage.program_missing",
        "runtime.cwd": "cage.directory_hidden",
    }


def test_the_first_obstacle_gives_the_code_and_the_line_to_type() -> None:
    with pytest.raises(CageUnavailable) as caught:
        caged("read:fs:/opt/nowhere", "exec:jq:/")
    assert caught.value.error_code == "cage.path_missing"
    assert caught.value.hint == "mkdir -p /opt/nowhere"
    assert caught.value.message.endswith("/opt/nowhere does not exist, or Paddock may not look there, and 1 more")


def test_a_package_that_is_gone_is_refused() -> None:
    machine = PretendMachine({path: entry for path, entry in DEBIAN.items() if not path.startswith(ROOT)})
    assert refusals(machine=machine) == {"root": "cage.path_missing"}
