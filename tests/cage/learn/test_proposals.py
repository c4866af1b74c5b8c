"""What was observed in a learning cage becomes the smallest grants, each with its reason. On a machine written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.cage.plan.pretend import DEBIAN, ROOT, PretendMachine, caged

from paddock.cage.learn.proposal import MAX_PROPOSALS, Learned
from paddock.cage.learn.propose import LearningContext, propose_grants
from paddock.cage.observe.observation import FileAttempt, NetworkAttempt, Observations
from paddock.cage.plan.named_places import find_named_places
from paddock.cage.plan.programs import PROGRAM_PATH
from paddock.cage.spec import Learning, StandIn
from paddock.core.ids import PluginName
from paddock.manifest.capability import parse_capability
from paddock.manifest.model import CommandRuntime, Dialect, Manifest

MACHINE = PretendMachine(
    {
        **DEBIAN,
        "/etc/mime.types": "-",
        "/home/ada/.ssh/id_ed25519": "-",
        "/home/ada/code/server.py": "-",
        "/home/ada/code/helper.py": "-",
        "/home/ada/docs/a.md": "-",
        **{f"/home/ada/.{name}rc": "-" for name in "abcd"},
        "/home/ada/link": "-> /home/ada/docs",
        "/home/ada/server.py": "-",
        "/opt/other/git": "*",
        "/home/ada/.bashrc": "-",
        "/opt/other/tool": "*",
        **{f"/srv/data/deep/{name}": "-" for name in "abcd"},
        "/srv/db/log.sqlite": "SQLite format 3\0 made up",
        "/srv/db/old.sqlite": "-",
        "/srv/db/wal.sqlite": "SQLite format 3\0\x10\0\2\2",
        "/srv/people/bea/docs/a.md": "-",
        "/srv/paddock/data/files/other/secret": "-",
        "/srv/socket": "|",
        "/usr/share/dict/words": "-",
    }
)


def learned(
    *attempts: tuple[str, str],
    args: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    granted: tuple[str, ...] = (),
    answered: bool = False,
    hosts: tuple[tuple[str, int], ...] = (),
    loopback: tuple[int, ...] = (),
    homes: tuple[str, ...] = (),
    machine: PretendMachine = MACHINE,
    trees: tuple[str, ...] = (),
) -> Learned:
    """What is learned from a plugin `notes` that tried this."""
    runtime = CommandRuntime(("python3", "./main.py", *args), env=env or {})
    manifest = Manifest(name=PluginName("notes"), version="1.0.0", dialect=Dialect.MCP, runtime=runtime)
    context = LearningContext(
        cage=caged(*granted, machine=machine, learning=Learning(), trees=trees),
        named=find_named_places(manifest, config or {}),
        filesystem=machine,
        package=ROOT,
        own_folder="/srv/paddock/config/notes",
        hidden=("/srv/paddock",),
        program_path=PROGRAM_PATH,
    )
    seen = Observations(
        tuple(FileAttempt(use, path) for use, path in attempts),  # type: ignore[arg-type]
        tuple(NetworkAttempt("127.0.0.1", port) for port in loopback),
        tuple(NetworkAttempt(*host) for host in hosts),
    )
    result = Learned(tuple(parse_capability(text) for text in granted), answered, frozenset(homes))
    propose_grants(seen, context, result)
    return result


def proposed(*attempts: tuple[str, str], **given: Any) -> dict[str, str]:
    """Each ticked capability with its reason."""
    return {str(one.capability): one.reason for one in learned(*attempts, **given).proposals if one.selected}


def unticked(*attempts: tuple[str, str], **given: Any) -> list[str]:
    return [str(one.capability) for one in learned(*attempts, **given).proposals if not one.selected]


def objections(*attempts: tuple[str, str], **given: Any) -> list[str]:
    return [one.message for one in learned(*attempts, **given).obstacles]


def test_a_folder_named_in_its_arguments_is_proposed_for_reading_even_if_it_was_only_approached() -> None:
    reason = "looks into /home/ada/docs, named in its arguments"
    for path in ("/home/ada/docs", "/home", "/home/ada"):
        assert proposed(("look", path), args=("/home/ada/docs",)) == {"read:fs:/home/ada/docs": reason}
    deeper = proposed(("read", "/home/ada/docs/a.md"), args=("--root=/home/ada/docs",))
    assert deeper == {"read:fs:/home/ada/docs": "reads /home/ada/docs, named in its arguments"}


def test_a_file_that_it_writes_needs_the_folder_in_which_it_and_its_journal_are() -> None:
    args = ("--db-path", "/srv/db/new.sqlite")
    made = {"write:fs:/srv/db": "makes /srv/db/new.sqlite, named in its arguments"}
    assert proposed(("write", "/srv/db/new.sqlite"), args=args) == made
    assert proposed(args=args) == made
    old = proposed(("write", "/srv/db/old.sqlite"), args=("/srv/db/old.sqlite",))
    assert old == {"write:fs:/srv/db": "writes /srv/db/old.sqlite, named in its arguments"}
    folder = proposed(("write", "/srv/data/deep/new"), args=("/srv/data/deep",))
    assert folder == {"write:fs:/srv/data/deep": "writes /srv/data/deep, named in its arguments"}


def test_a_named_place_that_it_did_not_open_so_far_is_proposed_and_says_so() -> None:
    found = proposed(env={"NOTES_ROOT": "/home/ada/docs"}, answered=True)
    reason = "/home/ada/docs is named in its variable NOTES_ROOT; it was not opened so far"
    assert found == {"read:fs:/home/ada/docs": reason}
    assert list(proposed(config={"roots": ["/home/ada/docs"]})) == ["read:fs:/home/ada/docs"]


def test_a_place_in_its_own_folder_is_granted_as_that() -> None:
    assert list(proposed(env={"STORE": "/srv/paddock/config/notes/memory.json"})) == ["write:fs:config:/"]


def test_a_program_for_everyone_is_proposed_by_its_name_and_any_other_is_an_obstacle() -> None:
    assert proposed(("execute", "/usr/local/bin/git"), ("execute", "/usr/bin/git")) == {"exec:git:/": "runs git"}
    assert proposed(("execute", "/usr/bin/git"), granted=("exec:git:/",)) == {}
    for other in ("/opt/other/tool", "/opt/other/git"):  # the name of the second would grant another program
        assert objections(("execute", other)) == [f"it runs {other}, which no grant allows"]


def test_what_a_plugin_answers_without_is_not_ticked() -> None:
    tried = (("execute", "/usr/bin/git"), ("read", "/usr/share/dict/words"))
    assert list(proposed(*tried)) == ["exec:git:/", "read:fs:/usr/share/dict/words"]
    assert proposed(*tried, answered=True) == {}
    assert unticked(*tried, answered=True) == ["exec:git:/", "read:fs:/usr/share/dict/words"]


def test_a_persons_files_that_no_setting_names_are_never_ticked() -> None:
    assert proposed(("read", "/home/ada/notes/today.md")) == {}
    (found,) = learned(("read", "/home/ada/notes/today.md")).proposals
    assert found.reason == "reads /home/ada/notes/today.md; nothing in its settings names it"


def test_files_beside_a_named_script_are_its_modules() -> None:
    args, granted = ("/home/ada/code/server.py",), ("read:fs:/home/ada/code/server.py",)
    found = proposed(("read", "/home/ada/code/helper.py"), args=args, granted=granted)
    reason = "reads /home/ada/code/helper.py, beside /home/ada/code/server.py"
    assert found == {"read:fs:/home/ada/code": reason}


def test_many_files_of_a_folder_are_that_folder_but_never_somebodys_whole_home() -> None:
    files = [("read", f"/srv/data/deep/{name}") for name in "abcd"]
    assert unticked(*files[:3]) == [f"read:fs:/srv/data/deep/{name}" for name in "abc"]
    assert [(str(one.capability), one.reason) for one in learned(*files).proposals] == [
        (
            "read:fs:/srv/data/deep",
            "reads /srv/data/deep/a and 3 more there; nothing in its settings names it",
        )
    ]
    home = [("read", f"/home/ada/.{name}rc") for name in "abcd"]
    assert unticked(*home) == [f"read:fs:/home/ada/.{name}rc" for name in "abcd"]
    beside = proposed(*home[:1], args=("/home/ada/server.py",), granted=("read:fs:/home/ada/server.py",))
    assert list(beside) == ["read:fs:/home/ada/.arc"]


def test_a_wider_grant_takes_the_place_of_a_narrower_one_unless_only_that_is_ticked() -> None:
    named = ("/home/ada/docs/a.md", "/home/ada/docs")
    assert list(proposed(args=named)) == ["read:fs:/home/ada/docs"]
    # Whatever it tries around it: the folder that it is for stays to be chosen alone.
    tried = (("read", "/srv/data/deep/a"), ("write", "/srv/data/.state"))
    assert list(proposed(*tried, args=("/srv/data/deep",))) == ["read:fs:/srv/data/deep"]
    assert unticked(*tried, args=("/srv/data/deep",)) == ["write:fs:/srv/data"]
    both = learned(*tried, args=("/srv/data/deep",))
    assert list(both.stand_ins()) == [StandIn("/srv/data", "directory")]
    learner = Learned(())
    for text, idea in (("read:fs:/srv", True), ("read:fs:/srv/data", False), ("read:fs:/srv/data/deep", True)):
        learner.propose(parse_capability(text), text, own_idea=idea)
    assert [(str(one.capability), one.selected) for one in learner.proposals] == [
        ("read:fs:/srv", False),
        ("read:fs:/srv/data", True),
    ]


@pytest.mark.parametrize("path", ["/home/ada", "/home", "/", "/srv/people/bea"])
def test_a_whole_home_is_never_proposed_even_if_it_is_named(path: str) -> None:
    found = learned(("read", path), args=(path,), homes=("/srv/people/bea",))
    assert found.proposals == []
    assert [one.message for one in found.obstacles] == [
        f"it reads {path}, named in its arguments; all of {path} is never proposed"
    ]
    assert found.obstacles[0].hint == "name a folder inside it in the settings"
    own = learned(("write", f"{path}/.state".replace("//", "/")), homes=("/srv/people/bea",))
    assert (own.proposals, own.obstacles) == ([], []), "nor for what it does of itself"


def test_nothing_stands_in_for_what_is_granted() -> None:
    granted = ("read:fs:/home/ada/docs",)
    found = learned(("write", "/home/ada/docs/new.md"), args=("/home/ada/docs",), granted=granted)
    assert [str(one.capability) for one in found.proposals] == ["write:fs:/home/ada/docs"]
    assert list(found.stand_ins()) == [], "the next pass sees the files that it was granted"


def test_what_it_may_read_by_its_settings_can_be_widened() -> None:
    def widenable(*args: str, granted: str) -> list[str]:
        return [str(one) for one in learned(args=args, granted=(granted,)).widenable]

    assert widenable("/home/ada/docs", granted="read:fs:/home/ada/docs") == ["write:fs:/home/ada/docs"]
    assert widenable("/home/ada/docs", granted="write:fs:/home/ada/docs") == []
    assert widenable("/srv/data", granted="read:fs:/home/ada/docs") == [], "nothing else"
    assert widenable("/srv/db/log.sqlite", granted="read:fs:/srv/db/log.sqlite") == ["write:fs:/srv/db"]
    assert widenable("/home/ada/code/server.py", granted="read:fs:/home/ada/code/server.py") == [], "nor programs"


def test_a_database_is_proposed_with_the_folder_that_its_journal_needs() -> None:
    path = "/srv/db/log.sqlite"
    (found,) = learned(("read", path), args=(path,)).proposals
    assert (str(found.capability), str(found.writable)) == (f"read:fs:{path}", "write:fs:/srv/db")
    wal = proposed(("read", "/srv/db/wal.sqlite"), args=("/srv/db/wal.sqlite",))
    assert list(wal) == ["read:fs:/srv/db"], "its newest changes are in a file beside it"
    alone = proposed(args=(path,), granted=(f"write:fs:{path}",))
    assert alone == {"write:fs:/srv/db": f"makes a journal beside {path}, a SQLite database"}


@pytest.mark.parametrize("path", ["/home/ada/.ssh", "/home/ada/.ssh/id_ed25519", "/etc/shadow"])
def test_secrets_are_marked_as_dangerous_and_never_ticked_even_if_they_are_named(path: str) -> None:
    found = learned(("read", path), args=(path,)).proposals
    assert [one.selected for one in found] == [False]
    assert found[0].warning


def test_a_file_that_is_run_without_a_cage_is_never_ticked_for_writing() -> None:
    path = "/home/ada/.bashrc"
    found = learned(("write", path), args=(path,)).proposals
    assert [one.selected for one in found] == [False] and "without a cage" in found[0].warning


@pytest.mark.parametrize("path", ["/srv/paddock/data/paddock.db", "/srv/paddock/data/files/other/secret"])
def test_what_is_paddocks_own_is_never_proposed(path: str) -> None:
    assert learned(("read", path)).proposals == []
    assert learned(("read", path), args=(path,)).proposals == []


@pytest.mark.parametrize(
    "tried",
    [
        ("read", "/etc/mime.types"),  # libraries go on without
        ("read", "/proc/self/maps"),
        ("read", f"{ROOT}/main.py"),  # its own
        ("write", "/tmp/scratch"),  # the cage's own
        ("read", "/usr/lib/python3.11/os.py"),  # shown anyway
        ("read", "/nowhere/at/all"),  # not on this machine either
        ("write", "/srv/db/__pycache__"),  # Python goes on without
        ("write", f"{ROOT}/__pycache__/main.pyc.1"),
        ("look", "/usr/share/dict/words"),  # only looked for
        ("execute", "/usr/share/dict"),  # a directory, whose search permission was asked for
    ],
)
def test_what_was_let_through_or_helps_nobody_is_not_proposed(tried: tuple[str, str]) -> None:
    result = learned(tried)
    assert (result.proposals, result.obstacles) == ([], [])


def test_a_file_that_would_be_lost_is_refused_with_where_to_put_it() -> None:
    (found,) = learned(env={"MEMORY_FILE_PATH": "/tmp/memory.json"}, answered=True).obstacles
    assert found.message == (
        "/tmp/memory.json, named in its variable MEMORY_FILE_PATH, would be lost: every cage has a /tmp of its own"
    )
    assert "config:/" in found.hint
    # A folder there can be bound.
    assert list(proposed(env={"MEMORY_FILE_PATH": "/tmp/shared/memory.json"})) == ["write:fs:/tmp/shared"]
    assert learned(env={"TMPDIR": "/tmp/x"}).obstacles == []


def test_a_place_that_no_grant_can_show_is_an_obstacle_with_what_to_do() -> None:
    assert objections(args=("/home/ada/link",)) == [
        "/home/ada/link, named in its arguments, is a link to /home/ada/docs"
    ]
    assert objections(args=("/srv/socket",)) == [
        "/srv/socket, named in its arguments, is a pipe, socket or device, which no plugin is shown"
    ]
    assert objections(args=("/srv/none/at/all",)) == [
        "/srv/none/at/all, named in its arguments, does not exist, nor does /srv/none/at"
    ]
    assert objections(("write", f"{ROOT}/cache.json")) == [
        f"it writes {ROOT}/cache.json, in its own package, which is read-only"
    ]


def test_a_write_among_the_packages_installed_for_it_is_an_obstacle_with_the_setting_that_moves_the_file() -> None:
    installed = "/srv/paddock/data/environments/npm/1/node_modules/memory/dist"
    machine = PretendMachine({**DEBIAN, f"{installed}/index.js": "-"})
    result = learned(("write", f"{installed}/memory.jsonl"), machine=machine, trees=(installed,))
    (found,) = result.obstacles
    assert found.message == f"it writes {installed}/memory.jsonl, in its installed packages, which are read-only"
    assert "name config:/FILE there, in a folder of its own, and grant write:fs:config:/" in found.hint
    assert found.saves
    assert objections(("read", f"{installed}/none.jsonl"), machine=machine, trees=(installed,)) == []
    assert objections(("write", "/srv/paddock/data/other")) == [], "another's files are no business of it"


def test_hosts_are_proposed_with_their_port_and_loopback_only_where_it_is_named() -> None:
    found = proposed(hosts=(("api.example.com", 443),), env={"API": "https://api.example.com/v1"}, answered=True)
    assert found == {"net:api.example.com:443": "connects to api.example.com on port 443, named in its variable API"}
    assert list(proposed(hosts=(("api.example.com", 443),))) == ["net:api.example.com:443"]
    assert unticked(hosts=(("api.example.com", 443),), answered=True) == ["net:api.example.com:443"]
    assert unticked(loopback=(5432,)) == ["net:127.0.0.1:5432"]
    url = "postgres://localhost:5432/notes"
    assert list(proposed(loopback=(5432,), args=(url,))) == ["net:127.0.0.1:5432"]


def test_a_stand_in_is_what_the_host_has_and_none_is_inside_another() -> None:
    result = learned(
        ("execute", "/usr/bin/git"), ("read", "/srv/db/old.sqlite"), args=("/home/ada/docs", "/home/ada/docs/a.md")
    )
    assert list(result.stand_ins()) == [
        StandIn("/home/ada/docs", "directory"),
        StandIn("/srv/db/old.sqlite", "file"),
        StandIn("/usr/bin/git", "program"),
    ]


def test_a_flood_of_attempts_gives_a_short_list() -> None:
    machine_hosts = tuple((f"host{number}.example.com", 443) for number in range(500))
    assert len(learned(hosts=machine_hosts).proposals) == MAX_PROPOSALS


def test_texts_of_a_plugin_cannot_write_to_the_terminal() -> None:
    result = learned(("read", "/srv/db/old.sqlite\x1b[31m"), args=("/srv/none\x1b[31m/x",))
    assert all("\x1b" not in one.reason for one in result.proposals)
    assert all("\x1b" not in one.message for one in result.obstacles)
