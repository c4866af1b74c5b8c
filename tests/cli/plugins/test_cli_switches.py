"""Enabling, disabling and repairing, and what the lists say about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import kernel, native, write_file
from paddock.cli.commands.plugin.show import KINDS
from paddock.manifest.model import PluginKind

SLOW_COUNT = Path(__file__).parents[3] / "examples" / "slow-count"


def codes(paddock: Paddock, name: str) -> dict[str, str]:
    """Why a plugin cannot be enabled: code by path."""
    said = paddock.quickly("plugin", "enable", name, "--json", code=6)
    assert said.error["code"] == "plugin.cannot_enable"
    return {problem["path"]: problem["code"] for problem in said.error["errors"]}


@pytest.mark.req("G-52", "list tells more")
def test_a_plugin_is_switched_on_and_off_and_the_list_tells_more_when_asked(paddock: Paddock, source: Path) -> None:
    native(source, homepage="https://example.org/notes")
    paddock.quickly("plugin", "install", source, "--yes")
    assert "enabled notes 1.0.0" in paddock("plugin", "enable", "notes", "--no-start").err
    short = paddock("plugin", "list")
    assert "enabled" in short.out
    assert "https://example.org/notes" not in short.out

    more = paddock("plugin", "list", "--verbose").out
    for words in (f"directory {source}", "https://example.org/notes", "sha256:", "unsigned", "host:log"):
        assert words in more

    assert paddock("plugin", "disable", "notes", "--json").json["state"] == "disabled"
    assert paddock.listed()["notes"]["state"] == "disabled"


@pytest.mark.req("K-03", "list by kind")
def test_the_list_is_narrowed_by_kind_and_says_when_it_is_empty(paddock: Paddock, source: Path) -> None:
    assert "no plugins are installed" in paddock("plugin", "list").err
    paddock.quickly("plugin", "install", native(source / "n"), "--yes")
    paddock.quickly("plugin", "install", kernel(source / "a", "Plan.Agent", kind="agent"), "--yes")
    said = paddock("plugin", "list", "--kind", "agent", "--json").json

    assert [(row["name"], row["kind"]) for row in said["plugins"]] == [("Plan.Agent", "agent")]
    assert "notes" not in paddock.quickly("plugin", "list", "--kind", "agent").out
    assert paddock.quickly("plugin", "list", "--kind", "Agents", "--json").json == said
    assert "no plugin of kind tool is installed" in paddock("plugin", "list", "--kind", "tools").err
    refused = paddock("plugin", "list", "--kind", "foo", "--json", code=2)
    assert refused.error["code"] == "usage"
    assert "agent, operator, tool, adapter, plugin" in refused.err


def test_every_kind_of_a_manifest_can_be_asked_for() -> None:
    assert set(KINDS) == {kind.value for kind in PluginKind}


def test_a_script_finds_the_same_facts_under_the_same_names_in_the_list_and_in_the_details(
    paddock: Paddock, source: Path
) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    native(source, version="1.1.0")
    paddock.quickly("plugin", "upgrade", "notes", "--yes")
    for pinned in (None, "1.0.0"):
        if pinned:
            paddock.quickly("plugin", "pin", "notes", pinned)
        listed = paddock.listed()["notes"]
        details = paddock.quickly("plugin", "show", "notes", "--json").json
        assert (listed["versions"], listed["pinned"]) == (["1.1.0", "1.0.0"], pinned)
        assert {name: details[name] for name in listed} == listed


def test_a_narrow_terminal_gets_fewer_columns_and_shorter_lines(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source, description="word " * 20), "--yes")
    narrow = dataclasses.replace(paddock, more={"COLUMNS": "50", "NO_COLOR": "1"})
    listed = narrow.on_terminal("plugin", "list")
    assert "DESCRIPTION" not in listed
    assert "NAME   VERSION  STATE     PROCESS  TRUST" in listed
    assert "KIND" not in dataclasses.replace(paddock, more={"COLUMNS": "30", "NO_COLOR": "1"}).on_terminal(
        "plugin", "list"
    )
    for words in (["plugin", "show", "notes"], ["config", "show", "--origin"], ["plugin", "list"]):
        lines = narrow.on_terminal(*words).splitlines()
        # What has no spaces (a digest, a path) stays whole for copying.
        assert all(len(line) <= 50 or len(line.split()[-1]) > 20 for line in lines), words


def test_a_plugin_without_a_program_installs_and_says_why_it_cannot_be_enabled(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", kernel(source, program=False), "--yes")
    said = paddock("plugin", "enable", "Email.GenerateDraft", code=6)

    assert "names no program to run" in said.err
    assert "put a paddock.yaml" in said.err
    assert "cannot be enabled: names no program to run" in paddock("plugin", "show", "Email.GenerateDraft").err
    assert paddock.listed()["Email.GenerateDraft"]["state"] == "disabled"


def test_one_command_installs_and_enables_and_leaves_installed_what_cannot_be_enabled(
    paddock: Paddock, source: Path
) -> None:
    asked = paddock.quickly("plugin", "install", SLOW_COUNT, "--enable", "--json", code=4)
    assert "--enable --yes" in asked.error["hint"]
    done = paddock.quickly("plugin", "install", SLOW_COUNT, "--enable", "--yes", "--json").json
    assert (done["action"], done["state"]) == ("installed", "enabled")
    refused = paddock.quickly("plugin", "install", kernel(source / "mail", program=False), "--enable", "--yes", code=6)
    assert "✓ installed Email.GenerateDraft 1.2.0\n" in refused.err
    assert "names no program to run" in refused.err
    states = {name: row["state"] for name, row in paddock.listed().items()}
    assert states == {"slow-count": "enabled", "Email.GenerateDraft": "disabled"}


def test_a_schema_file_that_the_package_lacks_keeps_it_from_being_enabled(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", kernel(source, output_schema=None), "--yes")

    assert list(codes(paddock, "Email.GenerateDraft").values()) == ["schema_missing"]


@pytest.mark.req("K-24", "resolved at enable")
@pytest.mark.req("K-24", "missing ones are named")
def test_missing_and_disabled_tools_keep_an_agent_from_being_enabled(paddock: Paddock, source: Path) -> None:
    requires = {"tools": ["Web.Search@^1.0.0"], "capabilities": [], "context_fields": []}
    paddock.quickly(
        "plugin", "install", kernel(source / "a", "Research.Agent", kind="agent", requires=requires), "--yes"
    )
    assert codes(paddock, "Research.Agent") == {"requires.tools[0]": "tool_missing"}

    # A version outside the constraint does not help.
    paddock.quickly("plugin", "install", kernel(source / "t2", "Web.Search", "2.0.0", kind="tool"), "--yes")
    assert codes(paddock, "Research.Agent") == {"requires.tools[0]": "tool_missing"}
    paddock.quickly("plugin", "remove", "Web.Search", "--yes")
    paddock.quickly("plugin", "install", kernel(source / "t1", "Web.Search", "1.4.0", kind="tool"), "--yes")
    assert codes(paddock, "Research.Agent") == {"requires.tools[0]": "tool_disabled"}

    paddock.quickly("plugin", "enable", "Web.Search", "--no-start")
    paddock.quickly("plugin", "enable", "Research.Agent", "--no-start")


def test_required_configuration_of_this_machine_must_be_there(paddock: Paddock, source: Path) -> None:
    system = {
        "type": "object",
        "properties": {"token": {"type": "string"}, "region": {"type": "string", "default": "eu"}},
        "required": ["token", "region"],
    }
    paddock.quickly("plugin", "install", native(source, system_config_schema=system), "--yes")
    assert codes(paddock, "notes") == {"system_config.token": "config_missing"}

    text = paddock.local.read_text()
    paddock.local.write_text(text.replace("local = true", 'local = true\ntoken = "x"'))
    paddock.quickly("plugin", "enable", "notes", "--no-start")


def changed(root: Path) -> None:
    write_file(root / "run.sh", "#!/bin/sh\nrm -rf /\n", executable=True)


def removed(root: Path) -> None:
    (root / "run.sh").unlink()


def added(root: Path) -> None:
    write_file(root / "extra.py", "")


def made_executable(root: Path) -> None:
    (root / "paddock.yaml").chmod(0o755)


def linked(root: Path) -> None:
    (root / "run.sh").unlink()
    (root / "run.sh").symlink_to("/bin/sh")


def all_gone(root: Path) -> None:
    for path in root.iterdir():
        path.unlink()
    root.rmdir()


def replaced_by_a_link(root: Path) -> None:
    moved = root.parent.parent.parent / "elsewhere"
    root.rename(moved)
    root.symlink_to(moved)
    changed(moved)


def replaced_by_a_file(root: Path) -> None:
    all_gone(root)
    root.write_text("")


ALSO = [pytest.param(one, marks=pytest.mark.slow) for one in (removed, made_executable, all_gone, replaced_by_a_file)]


@pytest.mark.parametrize("tamper", [changed, added, linked, replaced_by_a_link, *ALSO])
def test_a_modified_plugin_never_loads_until_it_is_repaired(
    paddock: Paddock, source: Path, tamper: Callable[[Path], None]
) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    tamper(paddock.trees / "notes" / "1.0.0")

    assert paddock.listed()["notes"]["state"] == "modified"
    said = paddock.quickly("plugin", "list")
    assert "paddock plugin repair notes" in said.err
    details = paddock.quickly("plugin", "show", "notes", "--json").json
    assert details["state"] == "modified"
    assert details["repair_action"] == {"kind": "plugin.repair", "arguments": {"plugin": "notes"}}
    assert any(details["difference"].values())
    assert "paddock plugin repair notes" in paddock.quickly("plugin", "show", "notes").err
    refused = paddock.quickly("plugin", "enable", "notes", "--json", code=7)
    assert refused.error["code"] == "plugin.modified"
    assert "paddock plugin repair notes" in refused.err

    assert paddock.quickly("plugin", "repair", "notes", "--json").json["restored"] == ["1.0.0"]
    root = paddock.trees / "notes" / "1.0.0"
    assert sorted(path.name for path in root.iterdir()) == ["paddock.yaml", "run.sh"]
    assert (root / "run.sh").read_text() == "#!/bin/sh\nexec cat\n"
    assert not (root / "run.sh").is_symlink()
    assert not root.is_symlink()
    # It was enabled, and what a person decided stands.
    assert paddock.listed()["notes"]["state"] == "enabled"
    assert paddock.quickly("plugin", "repair", "notes", "--json").json["restored"] == []


def test_the_changed_files_are_named(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    root = paddock.trees / "notes" / "1.0.0"
    changed(root)
    added(root)
    said = paddock("plugin", "enable", "notes", "--json", code=7)

    assert said.error["details"] == {"changed": ["run.sh"], "missing": [], "added": ["extra.py"]}
    assert "changed run.sh, added extra.py" in said.err
    details = paddock("plugin", "show", "notes")
    assert "changed run.sh\n" in details.err
    assert "added extra.py\n" in details.err
    assert "enabled " not in details.out


def test_a_rewritten_schema_of_a_modified_plugin_is_not_used(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", kernel(source), "--yes")
    paddock.quickly("plugin", "validate", "Email.GenerateDraft#input", '{"text": "hi"}')
    (paddock.trees / "Email.GenerateDraft" / "1.2.0" / "schemas" / "input.json").write_text("{}")
    said = paddock.quickly("plugin", "validate", "Email.GenerateDraft#input", "7", "--json", code=7)

    assert said.error["code"] == "plugin.modified"


def test_another_name_reaches_the_same_plugin_until_it_is_forgotten(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    assert paddock.quickly("plugin", "alias", "jot", "notes", "--json").json == {"alias": "jot", "name": "notes"}
    assert paddock.quickly("plugin", "enable", "jot", "--no-start", "--json").json["name"] == "notes"
    assert paddock.quickly("plugin", "show", "jot", "--json").json["aliases"] == ["jot"]

    taken = paddock.quickly("plugin", "alias", "notes", "notes", "--json", code=1)
    assert taken.error["code"] == "alias.taken"
    assert paddock.quickly("plugin", "alias", "no such!", "notes", "--json", code=6).error["code"] == "alias.name"
    paddock.quickly("plugin", "alias", "jot", "notes", "--remove", code=2)
    paddock.quickly("plugin", "alias", "jot", "--remove")
    paddock.quickly("plugin", "disable", "jot", code=3)
    paddock.quickly("plugin", "alias", "jot", "--remove", code=3)


def test_a_name_that_is_close_is_suggested(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")

    assert "did you mean 'notes'?" in paddock("plugin", "enable", "note", code=3).err
