"""`paddock plugin try`: a server in a learning cage, the grants that it needs, and whether it answers with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import write_file, write_json
from fixtures.parrot import parrot

SERVER = """
import json, os, subprocess, sys

FIELDS = {{}}
{needs}
SCHEMA = {{"type": "object", "properties": FIELDS}}
TOOLS = [{{"name": name, "description": name, "inputSchema": SCHEMA}} for name in ("one", "two")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            answer = {{"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {{"tools": {{}}}}}}
            answer["serverInfo"] = {{"name": "needy", "version": "1"}}
        case "tools/list":
            answer = {{"tools": TOOLS}}
        case _:
            answer = {{}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": answer}}), flush=True)
"""


def imported(paddock: Paddock, source: Path, needs: str, *args: object, **fields: Any) -> Path:
    """A server `needy` of this machine that a person took over; gives its script."""
    script = write_file(source / "server" / "main.py", SERVER.format(needs=needs))
    entry = {"command": "python3", "args": [str(script), *map(str, args)], **fields}
    file = write_json(source / "mcp.json", {"mcpServers": {"needy": entry}})
    paddock.quickly("import", file, "--yes")
    return script


def granted(paddock: Paddock) -> list[str]:
    """What it may do beside having no network."""
    listed = paddock.quickly("plugin", "show", "needy", "--json").json["capabilities"]
    return [one for one in listed if one != "net:[]"]


@pytest.mark.req("B-21", "the smallest grants")
@pytest.mark.req("B-21", "reasons")
def test_one_command_finds_and_grants_all_that_a_server_needs_and_nothing_more(paddock: Paddock, source: Path) -> None:
    docs = source / "docs"
    docs.mkdir()
    (source / "diary.txt").write_text("nobody's business")
    needs = f"""
os.path.exists({str(source / "diary.txt")!r})
subprocess.run(["git", "--version"], check=True)
os.listdir(sys.argv[1])
"""
    script = imported(paddock, source, needs, docs)
    said = paddock.quickly("plugin", "try", "needy", "--yes", "--json")

    assert (said.json["answers"], said.json["tools"]) == (True, 2)
    assert granted(paddock) == [f"read:fs:{script}", f"read:fs:{docs}", "exec:git:/"]
    assert f"looks into {docs}, named in its arguments" in said.err or f"{docs} is named in its arguments" in said.err
    assert paddock.quickly("plugin", "try", "needy", "--json").json["proposals"] == []
    entries = paddock.quickly("ledger", "tail", "--type", "plugin.tried", "--json").out
    assert "plugin.tried" in entries


def test_a_person_decides_about_each_grant_and_may_let_it_change_files_too(paddock: Paddock, source: Path) -> None:
    docs = source / "docs"
    docs.mkdir()
    script = imported(paddock, source, "os.listdir(sys.argv[1])", docs)

    screen = paddock.on_terminal("plugin", "try", "needy", answers=["y", "w"], prompt="/N] ")
    assert "needy answers, 2 tools" in screen
    assert granted(paddock) == [f"read:fs:{script}", f"write:fs:{docs}"]


def test_without_a_yes_nothing_is_granted_and_it_is_said_what_is_missing(paddock: Paddock, source: Path) -> None:
    script = imported(paddock, source, "")
    asked = paddock.quickly("plugin", "try", "needy", code=4)
    assert f"needy needs read:fs:{script}" in asked.err
    assert "paddock plugin try needy --yes" in asked.err

    paddock.on_terminal("plugin", "try", "needy", answers=["n"], prompt="/N] ", code=7)
    assert granted(paddock) == []


def test_a_server_that_does_not_answer_unless_it_gets_secrets_gets_none_by_a_yes(
    paddock: Paddock, source: Path
) -> None:
    key = write_file(source / ".ssh" / "id_ed25519", "secret")
    script = imported(paddock, source, f"print(open({str(key)!r}).read(), file=sys.stderr)")
    said = paddock.quickly("plugin", "try", "needy", "--yes", "--json", code=7)

    assert granted(paddock) == []
    (proposal,) = [one for one in said.error["details"]["trial"]["proposals"] if ".ssh" in one["capability"]]
    assert not proposal["selected"]
    assert "keys to other machines" in proposal["warning"]
    assert f"--grant read:fs:{key}" in said.err
    assert "does not answer" in said.error["message"]
    assert script.exists()


def test_a_grant_that_it_answers_without_is_not_kept(paddock: Paddock, source: Path) -> None:
    script = imported(paddock, source, "", "--with", "git")
    grants = ("--grant", "exec:git:/", "--grant", "exec:sort:/")
    said = paddock.quickly("plugin", "try", "needy", *grants, "--yes", "--json")
    assert said.json["unneeded"] == ["exec:sort:/"], "its arguments name the other, which it may run later on"
    assert sorted(granted(paddock)) == ["exec:git:/", f"read:fs:{script}"]


def test_of_two_grants_of_which_either_would_do_one_is_kept(paddock: Paddock, source: Path) -> None:
    one, other = (write_file(source / name / "settings", "") for name in ("one", "other"))
    needs = f"if not any(map(os.path.exists, ({str(one)!r}, {str(other)!r}))):\n    sys.exit('no settings')"
    script = imported(paddock, source, needs)
    grants = ("--grant", f"read:fs:{one}", "--grant", f"read:fs:{other}")
    said = paddock.quickly("plugin", "try", "needy", *grants, "--yes", "--json")
    assert said.json["unneeded"] == [f"read:fs:{one}"]
    assert sorted(granted(paddock)) == sorted([f"read:fs:{script}", f"read:fs:{other}"])


def test_a_file_that_would_be_lost_in_the_cage_is_refused_or_its_folder_granted(paddock: Paddock, source: Path) -> None:
    kept = source / "kept"
    kept.mkdir()
    write = "open(os.environ['STORE'], 'w').write('kept')"
    script = imported(paddock, source, write, env={"STORE": str(kept / "memory.json")})
    grant = ("--grant", f"read:fs:{script}")
    lost = paddock.quickly("plugin", "try", "needy", *grant, code=4).err
    assert f"makes {kept}/memory.json, named in its variable STORE: write:fs:{kept}" in lost
    paddock.quickly("plugin", "try", "needy", *grant, "--yes")
    assert granted(paddock) == [f"read:fs:{script}", f"write:fs:{kept}"]
    assert (kept / "memory.json").read_text() == "kept"


def test_hosts_that_only_calls_reach_are_proposed_and_kept_if_a_person_grants_them(
    paddock: Paddock, source: Path
) -> None:
    script = imported(paddock, source, "FIELDS['page'] = {'type': 'string', 'format': 'uri'}")
    said = paddock.quickly("plugin", "try", "needy", "--yes", "--json")
    (proposal,) = said.json["proposals"]
    assert (proposal["capability"], proposal["selected"]) == ("net:*", False)
    assert proposal["reason"].startswith("its tool one takes any URL, as page")
    assert "paddock plugin try needy --grant 'net:*'" in said.err
    assert granted(paddock) == [f"read:fs:{script}"]

    assert paddock.quickly("plugin", "try", "needy", "--grant", "net:*", "--yes", "--json").json["proposals"] == []
    assert granted(paddock) == [f"read:fs:{script}", "net:*"]


def test_what_the_cage_would_throw_away_is_refused_before_it_can_be_lost(paddock: Paddock, source: Path) -> None:
    script = imported(paddock, source, "", env={"STORE": "/tmp/paddock-test-memory.json"})
    refused = paddock.quickly("plugin", "try", "needy", "--grant", f"read:fs:{script}", "--json", code=7).error
    assert refused["code"] == "cage.throwaway_path"
    assert "files there are lost" in refused["message"]
    assert "config:/NAME" in refused["hint"]


def test_a_folder_that_the_cage_would_hide_is_proposed_and_without_it_nothing_starts(
    paddock: Paddock, source: Path
) -> None:
    script = imported(paddock, source, "", env={"STORE": f"file://{source}/notes.db"})
    without = ("--grant", f"read:fs:{script}")
    assert f"write:fs:{source}" in paddock.quickly("plugin", "try", "needy", *without, code=4).err
    refused = paddock.quickly("plugin", "enable", "needy", code=7).err
    assert "files there are lost" in refused
    paddock.quickly("plugin", "try", "needy", "--yes")
    assert f"write:fs:{source}" in granted(paddock)


def test_a_plugin_with_a_manifest_of_its_own_is_tried_and_not_changed(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", parrot(source / "parrot"), "--yes")
    said = paddock.quickly("plugin", "try", "parrot", "--json")
    assert (said.json["answers"], said.json["grantable"], said.json["proposals"]) == (True, False, [])


def test_a_running_server_is_restarted_with_what_it_was_granted(paddock: Paddock, source: Path) -> None:
    docs = source / "docs"
    docs.mkdir()
    script = imported(paddock, source, "os.path.isdir(sys.argv[1])", docs)
    paddock.quickly("plugin", "try", "needy", "--grant", f"read:fs:{script}", "--json", code=4)
    with daemon(paddock):
        paddock("plugin", "try", "needy", "--yes")
        paddock("plugin", "enable", "needy")
        assert paddock("plugin", "show", "needy", "--json").json["runtime"]["state"] == "running"


def test_a_server_that_cannot_start_is_not_reported_as_enabled_even_without_a_daemon(
    paddock: Paddock, source: Path
) -> None:
    imported(paddock, source, "")
    refused = paddock.quickly("plugin", "enable", "needy", code=7)
    assert "✓" not in refused.err
    assert "is enabled and does not run" in refused.err
    assert "paddock plugin try needy" in refused.err

    paddock.quickly("plugin", "try", "needy", "--yes")
    assert "✓ enabled needy" in paddock.quickly("plugin", "enable", "needy").err
