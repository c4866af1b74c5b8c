"""From grants to a cage: what is shown, what may run, and what is refused with everything that stands against it."""

from __future__ import annotations

import pytest
from tests.cage.plan.pretend import DEBIAN, ROOT, PretendMachine, caged, refusals, shown

from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.granted_paths import GrantRoots, config_directories
from paddock.cage.spec import SDK_PATH, BindMount, PythonScript, SymbolicLink
from paddock.manifest.capability import parse_capability
from paddock.net.egress import EgressGrant

# --- files


def test_a_grant_shows_that_place_and_nothing_beside_it() -> None:
    before = shown(caged())
    after = shown(caged("read:fs:/opt/data/in", "write:fs:/opt/data/out"))
    assert {path: writable for path, writable in after.items() if path not in before} == {
        "/opt/data/in": False,
        "/opt/data/out": True,
    }


@pytest.mark.req("G-17", "config: and project:")
def test_config_and_project_stand_for_the_folders_that_the_host_names() -> None:
    after = shown(caged("write:fs:config:/memory", "read:fs:project:/notes"))
    assert after["/srv/paddock/config/notes/memory"] is True
    assert after["/home/ada/notes"] is False


@pytest.mark.req("G-17", "config: and project:")
def test_without_a_project_a_project_path_is_refused_by_name() -> None:
    assert refusals("read:fs:project:/notes", "read:fs:config:/memory", places=GrantRoots()) == {
        "read:fs:project:/notes": "cage.no_project",
        "read:fs:config:/memory": "cage.no_config",
    }


def test_the_caller_is_told_which_configuration_folders_to_create_first() -> None:
    granted = [parse_capability(text) for text in ("write:fs:config:/memory", "read:fs:config:/", "read:fs:/opt/data")]
    assert config_directories(granted, "/c/notes") == ["/c/notes", "/c/notes/memory"]


@pytest.mark.req("G-17", "links")
@pytest.mark.parametrize(
    "capability", ["read:fs:/opt/moved", "write:fs:/opt/moved/out", "read:fs:project:/shortcut", "read:fs:/bin/bash"]
)
def test_a_link_that_leads_out_of_what_was_granted_is_refused(capability: str) -> None:
    assert refusals(capability) == {capability: "cage.link_escapes"}


def test_the_folder_of_a_project_may_itself_be_reached_through_a_link() -> None:
    after = shown(caged("read:fs:project:/in", places=GrantRoots(project="/opt/moved")))
    assert after["/opt/data/in"] is False


def test_links_that_go_round_in_a_circle_lead_nowhere() -> None:
    assert refusals("read:fs:/opt/round") == {"read:fs:/opt/round": "cage.path_missing"}


@pytest.mark.req("G-17", "links")
def test_links_inside_a_granted_tree_are_left_to_lead_where_the_cage_lets_them() -> None:
    spec = caged("read:fs:/home/ada")
    assert "/home/ada" in shown(spec)
    assert "/etc" not in shown(spec)


@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/sys/kernel", "/dev/null", "/run/docker.sock"])
def test_the_hosts_own_state_is_never_shown(path: str) -> None:
    assert refusals(f"read:fs:{path}") == {f"read:fs:{path}": "cage.forbidden_path"}


def test_a_pipe_or_socket_of_the_host_is_neither_granted_nor_shown_among_what_is() -> None:
    machine = PretendMachine({**DEBIAN, "/etc/agent": "|", f"{ROOT}/pipe": "|"})
    assert refusals("read:fs:/etc/agent", machine=machine) == {"read:fs:/etc/agent": "cage.special_file"}
    assert "/etc/agent" not in shown(caged("read:fs:/etc", machine=machine))
    assert refusals(command=("./pipe",), machine=machine) == {"runtime.command": "cage.program_missing"}


def test_reading_everything_goes_round_what_a_cage_has_of_its_own() -> None:
    spec = caged("read:fs:/")
    after = shown(spec)
    assert {"/home", "/usr", "/etc/shadow", "/etc/hostname"} <= set(after)
    assert not {"/", "/etc", "/etc/passwd", "/etc/hosts", "/tmp", "/proc", "/sys", "/dev", "/run"} & set(after)
    assert SymbolicLink("/bin", "usr/bin") in spec.links
    # What can be seen is one thing, what may run another.
    assert spec.executables == ("/usr/bin/python3.11",)


def test_a_grant_to_read_around_paddocks_own_directories_shows_them_empty() -> None:
    spec = caged("read:fs:/srv")
    assert spec.covers == ("/srv/paddock/config", "/srv/paddock/data")
    assert shown(spec)["/srv"] is False


@pytest.mark.parametrize("path", ["/srv", "/srv/paddock", "/"])
def test_a_grant_to_write_around_paddocks_own_directories_is_refused_because_they_could_be_moved(path: str) -> None:
    refused = {f"write:fs:{path}": "cage.hidden_path"}
    machine = PretendMachine({**DEBIAN, "/home/notes/main.py": "-"})
    assert refusals(f"write:fs:{path}", root="/home/notes", machine=machine) == refused
    # Nor may a plugin be there first.
    fresh = {name: entry for name, entry in machine.files.items() if not name.startswith("/srv/paddock/")}
    machine = PretendMachine({**fresh, "/srv/paddock/other": "."})
    assert refusals(f"write:fs:{path}", root="/home/notes", machine=machine) == refused


def test_a_grant_inside_paddocks_own_directories_is_refused() -> None:
    assert refusals("read:fs:/srv/paddock/data") == {"read:fs:/srv/paddock/data": "cage.hidden_path"}
    # Another plugin's configuration, too: only `config:` leads to one, and to one's own.
    other = "read:fs:/srv/paddock/config/notes/memory"
    assert refusals(other) == {other: "cage.hidden_path"}


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


def test_a_grant_that_would_take_thousands_of_binds_is_refused() -> None:
    crowded = PretendMachine({**DEBIAN, **{f"/etc/entry-{number}": "-" for number in range(1000)}})
    assert refusals("read:fs:/etc", machine=crowded) == {"capabilities": "cage.too_many_places"}


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
    assert spec.python == PythonScript("/usr/bin/python3", f"{ROOT}/main.py", ("--fast",))
    assert spec.network == (EgressGrant("api.example.com", 443),)


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


def test_a_python_plugin_finds_the_sdk_behind_whatever_path_it_brings() -> None:
    spec = caged()
    assert BindMount("/srv/paddock/lib/paddock_sdk", f"{SDK_PATH}/paddock_sdk") in spec.binds
    assert spec.environment["PYTHONPATH"] == SDK_PATH
    assert caged(command=("./tool.py",)).environment["PYTHONPATH"] == SDK_PATH
    assert caged(env={"PYTHONPATH": "./vendor"}).environment["PYTHONPATH"] == f"./vendor:{SDK_PATH}"
    assert "PYTHONPATH" not in caged(command=("bash", "./tool.sh")).environment


def test_only_net_grants_open_the_network() -> None:
    assert caged("net:[]", "storage:write", "host:http").network == ()
    assert caged("net:*", "net:localhost:*").network == (EgressGrant("*", None), EgressGrant("localhost", None))


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
