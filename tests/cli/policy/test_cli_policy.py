"""`paddock policy`: checking, reading, testing and trying the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import answering, native, write_json
from fixtures.prepared_homes import enabled_parrot, prepare_home

EXAMPLES = Path(__file__).parents[3] / "examples"
OWN = '@id("{id}") @text("No guests.")\nforbid (principal in Role::"guest", action in Action::"anyCall", resource);\n'


def write_rules(folder: Path, text: str) -> Path:
    folder.mkdir(mode=0o700, parents=True)
    file = folder / "own.cedar"
    file.write_text(text)
    file.chmod(0o600)
    return folder


def test_check_tells_every_mistake_with_its_file_and_line(paddock: Paddock, tmp_path: Path) -> None:
    folder = write_rules(tmp_path / "rules", OWN.format(id="a").replace("Role", "Rolle") + "permit(principal, action);")

    said = paddock.quickly("policy", "check", folder, "--json", code=6)

    assert said.error["code"] == "policy.invalid"
    assert [(one["path"], one["line"]) for one in said.error["errors"]] == [
        (str(folder / "own.cedar"), 2),
        (str(folder / "own.cedar"), 3),
    ]
    assert "did you mean 'Role'?" in said.err
    assert "paddock policy check" not in said.err


def test_check_counts_the_rules_that_hold(paddock: Paddock) -> None:
    before = paddock.quickly("policy", "check", "--json").json
    write_rules(paddock.home / "policies", OWN.format(id="no-guests") + OWN.format(id="guests-may-read"))

    after = paddock.quickly("policy", "check", "--json").json

    assert (after["rules"], after["own_rules"]) == (before["rules"] + 1, 2)
    assert after["version"] != before["version"]


def warnings(paddock: Paddock, *scopes: str) -> list[tuple[int, str, str]]:
    """What `policy check` warns of in rules with these scopes: lines, and what was probably meant."""
    folder = paddock.home / "policies"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "own.cedar"
    file.write_text("".join(f'@id("r{n}") @text("R.")\nforbid ({scope};\n' for n, scope in enumerate(scopes)))
    file.chmod(0o600)
    said = paddock.quickly("policy", "check", "--json").json
    assert {one["path"] for one in said["warnings"]} <= {str(file)}
    return [(one["line"], one["message"].partition(" names ")[2], one.get("hint", "")) for one in said["warnings"]]


def test_check_warns_of_names_that_this_home_does_not_know_and_guesses_what_was_meant(paddock: Paddock) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    paddock.quickly("user", "add", "anna", "--role", "chief")
    paddock.quickly("group", "add", "night")

    found = warnings(
        paddock,
        'principal in Group::"nite", action, resource)',
        'principal, action in Action::"anyCall", resource == Callable::"native-notes.addnote")',
        'principal, action, resource)\nwhen { resource in Plugin::"native-note" || principal == User::"anna" }',
        'principal in Role::"gest", action, resource)',
        'principal in Role::"zzz", action, resource)',
    )

    unknown = "which does not exist in this home"
    assert found == [
        (2, f"Group 'nite', {unknown}", "did you mean 'night'?"),
        (4, f"Callable 'native-notes.addnote', {unknown}", "did you mean 'native-notes.add_note'?"),
        (7, f"Plugin 'native-note', {unknown}", "did you mean 'native-notes'?"),
        (7, f"User 'anna', {unknown}", "did you mean 'user:anna'?"),
        (9, f"Role 'gest', {unknown}", "did you mean 'guest'?"),
        (11, f"Role 'zzz', {unknown}", ""),
    ]
    said = paddock.quickly("policy", "check").err
    assert "→ paddock user role add NAME zzz" in said
    assert "own.cedar (line 2): the rule r0 names Group 'nite', which does not exist in this home" in said
    assert "✓" in said


def test_check_knows_everybody_and_everything_of_this_home_and_what_the_shipped_rules_name(paddock: Paddock) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "anna", "--role", "chief", "--tenant", "acme")
    paddock.quickly("group", "add", "night", "--tenant", "acme")

    found = warnings(
        paddock,
        'principal in Group::"night", action, resource in Plugin::"native-notes")',
        'principal in Role::"chief", action in Action::"anyCall", resource == Callable::"native-notes.add_note")',
        'principal == User::"user:anna", action, resource)',
        'principal == User::"local:root", action in Action::"anyCall", resource == Callable::"Gmail.SendEmail")',
        'principal, action in Action::"anyCall", resource) when { resource.effects == [Effect::"read_only"] }',
    )

    assert found == []


def test_check_knows_the_documents_and_prompts_of_a_server_that_declares_its_tools(
    paddock: Paddock, tmp_path: Path
) -> None:
    tools = [{"name": "find", "description": "Find", "effects": ["read_only"], "input_schema": {"type": "object"}}]
    server = {"command": ["python3", "./main.py"], "protocol": "mcp"}
    paddock.quickly("plugin", "install", native(tmp_path / "docs", "docs", runtime=server, tools=tools), "--yes")

    found = warnings(
        paddock,
        'principal, action in Action::"anyCall", resource == Callable::"docs.resource:read")',
        'principal, action in Action::"anyCall", resource == Callable::"docs.resource:subscribe")',
        'principal, action in Action::"anyCall", resource == Callable::"docs.find")',
        'principal, action in Action::"anyCall", resource == Callable::"docs.resource:reed")',
    )

    assert [(line, hint) for line, _, hint in found] == [(8, "did you mean 'docs.resource:read'?")]


def test_check_knows_the_tools_that_a_server_has_listed_and_any_before_that(paddock: Paddock, tmp_path: Path) -> None:
    servers = {"mcpServers": {"it": answering(), "other": answering()}}
    paddock.quickly("import", write_json(tmp_path / "mcp.json", servers), "--yes")
    paddock.quickly("plugin", "enable", "it")

    found = warnings(
        paddock,
        'principal, action in Action::"anyCall", resource == Callable::"it.greet")',
        'principal, action in Action::"anyCall", resource == Callable::"it.gret")',
        'principal, action in Action::"anyCall", resource == Callable::"other.gret")',
    )

    assert [(line, hint) for line, _, hint in found] == [(4, "did you mean 'it.greet'?")]


def test_check_makes_no_home_to_look_names_up_in(paddock: Paddock, tmp_path: Path) -> None:
    folder = write_rules(tmp_path / "rules", OWN.format(id="a").replace("guest", "gest"))

    said = paddock.quickly("policy", "check", folder, "--json").json

    assert [one["hint"] for one in said["warnings"]] == ["did you mean 'guest'?"]
    assert not paddock.home.exists()


def test_with_broken_rules_no_call_is_made_and_plugins_can_still_be_examined_and_disabled(
    paddock: Paddock, tmp_path: Path
) -> None:
    prepare_home(paddock, enabled_parrot)
    paddock("call", "parrot.count")
    folder = write_rules(paddock.home / "policies", OWN.format(id="a").replace("Role", "Rolle"))

    denied = paddock("call", "parrot.count", "--json", code=6)

    assert denied.error["code"] == "policy.invalid"
    assert [(one["path"], one["line"]) for one in denied.error["errors"]] == [(str(folder / "own.cedar"), 2)]
    assert paddock("call", "unresolved", "list", "--json").json["doubts"] == []
    paddock("plugin", "logs", "parrot")
    paddock("plugin", "disable", "parrot")
    assert paddock.listed()["parrot"]["state"] == "disabled"


def test_show_tells_where_each_rule_comes_from(paddock: Paddock) -> None:
    write_rules(paddock.home / "policies", OWN.format(id="guests-may-read"))

    rules = {one["id"]: one for one in paddock.quickly("policy", "show", "--json").json["rules"]}

    assert rules["guests-may-read"]["origin"] == str(paddock.home / "policies" / "own.cedar")
    assert rules["members-may-call"]["origin"] == "shipped"
    assert "No guests." in paddock.quickly("policy", "show", "guests-may-read").out
    assert "did you mean 'members-may-call'?" in paddock.quickly("policy", "show", "member-may-call", code=3).err


def test_beside_a_daemon_show_and_try_tell_the_rules_in_force_and_not_those_of_the_files(paddock: Paddock) -> None:
    folder = write_rules(paddock.home / "policies", OWN.format(id="no-guests"))
    words = ("policy", "try", "notes.list", "--as", "role:guest", "--effect", "read_only", "--json")
    with daemon(paddock) as served:
        before = paddock.quickly("policy", "show", "--json").json
        (folder / "own.cedar").write_text("permit(principal, action);")

        assert paddock.quickly("policy", "show", "--json").json == before
        assert [rule["id"] for rule in paddock.quickly(*words).json["rules"]] == ["no-guests"]
        eventually(lambda: served.ask("GET", "/policy").body["load_error"] is not None, "the mistake is found")
        assert "the rules in the files are not in force" in paddock.quickly("policy", "show").err
    assert paddock.quickly("policy", "show", "--json", code=6).error["code"] == "policy.invalid"


def test_show_tells_the_rules_that_ask_from_those_that_forbid(paddock: Paddock) -> None:
    rules = {one["id"]: one for one in paddock.quickly("policy", "show", "--json").json["rules"]}
    lines = {line.split()[0]: line.split()[1] for line in paddock.quickly("policy", "show").out.splitlines()}

    names = ("members-may-call", "guests-see-nothing-personal", "sending-needs-a-yes", "final-text-behind-a-gate")
    assert [lines[name] for name in names] == ["permit", "forbid", "ask", "ask"]
    assert [rules[name]["asks"] for name in names] == [None, None, "action", "gate"]


def test_the_shipped_cases_hold_for_the_shipped_rules_and_show_what_ones_own_change(paddock: Paddock) -> None:
    assert paddock.quickly("policy", "test", "--json").json["failed"] == []
    write_rules(paddock.home / "policies", OWN.format(id="no-guests"))

    said = paddock.quickly("policy", "test", "--json", code=1)

    failed = {one["case"]: one["policies"] for one in said.json["failed"]}
    assert failed["a guest reads unattended"] == ["no-guests"]
    assert "expected allow, got deny (no-guests)" in said.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cases.yaml", "cases:\n  - {who: member, what: notes.list, expect: allow}\n"),
        ("cases.toml", '[[cases]]\nwho = "member"\nwhat = "notes.list"\nexpect = "allow"\n'),
    ],
)
def test_cases_are_written_as_yaml_or_toml(paddock: Paddock, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert paddock.quickly("policy", "test", tmp_path / name, "--json").json["cases"] == 1


def write_cases(folder: Path, *cases: str) -> Path:
    file = folder / "cases.yaml"
    file.write_text("cases:\n" + "".join(f"  - {one}\n" for one in cases))
    return file


@pytest.mark.parametrize("what", ["native-notes.add_note", "{call: native-notes.add_note}"])
def test_cases_about_what_is_installed_take_what_it_declares(paddock: Paddock, tmp_path: Path, what: str) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    file = write_cases(tmp_path, f"{{who: guest, what: {what}, expect: allow}}")

    said = paddock.quickly("policy", "test", file, "--json", code=1)

    assert [one["decision"] for one in said.json["failed"]] == ["deny"]
    assert said.json["assumed"] == []


def test_what_a_case_says_goes_before_what_is_installed(paddock: Paddock, tmp_path: Path) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    file = write_cases(
        tmp_path,
        "{who: guest, what: {call: native-notes.add_note, effects: [read_only]}, expect: allow}",
        "{who: member, what: {call: native-notes.add_note, tags: [writes_final]}, expect: ask, approval: gate}",
        "{who: member, what: {call: native-notes.to_come, effects: [external_send]}, expect: ask}",
    )

    assert paddock.quickly("policy", "test", file, "--json").json["failed"] == []


def test_a_case_about_what_an_installed_plugin_does_not_offer_is_a_mistake(paddock: Paddock, tmp_path: Path) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    file = write_cases(tmp_path, "{who: guest, what: native-notes.addnote, expect: deny}")

    (error,) = paddock.quickly("policy", "test", file, "--json", code=6).error["errors"]

    assert (error["path"], error["line"]) == ("cases[0].what", 2)
    assert "it offers: native-notes.add_note" in error["hint"]


def test_what_a_case_is_silent_about_and_nobody_installed_is_said_to_be_assumed(
    paddock: Paddock, tmp_path: Path
) -> None:
    file = write_cases(
        tmp_path,
        "{who: guest, what: notes.add, expect: allow}",
        "{who: member, what: notes.add, expect: allow}",
        "{who: member, what: {call: notes.drop}, expect: ask}",
        "{who: member, what: {call: notes.find, effects: [read_only]}, expect: allow}",
    )

    said = paddock.quickly("policy", "test", file, "--json")

    taken = [(one["what"], one["taken_as"]) for one in said.json["assumed"]]
    assert taken == [("notes.add", "read_only"), ("notes.add", "read_only"), ("notes.drop", "unknown")]
    assert said.err.count("! notes.add is not installed, and no effects are listed: taken as read_only") == 1
    assert not paddock.home.exists()


def test_the_shipped_cases_are_about_made_up_things_and_nothing_is_said_of_those(paddock: Paddock) -> None:
    said = paddock.quickly("policy", "test", "--json")

    assert (said.json["assumed"], "!" in said.err) == ([], False)


def test_two_cases_of_one_name_are_refused_with_both_lines(paddock: Paddock, tmp_path: Path) -> None:
    case = "{name: no hay, who: guest, what: {call: hay.add, effects: [db_write]}, expect: deny}"
    (error,) = paddock.quickly("policy", "test", write_cases(tmp_path, case, case), "--json", code=6).error["errors"]

    assert (error["path"], error["line"]) == ("cases[1].name", 3)
    assert error["message"] == "there is a case 'no hay' already, in line 2"


def test_mistakes_in_a_table_of_cases_are_told_with_their_lines(paddock: Paddock, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(
        "cases:\n"
        "  - {who: member, what: {call: a, effects: [db_wrte]}, expect: alow}\n"
        "  - {whom: member, what: b, expect: ask}\n"
    )

    errors = paddock.quickly("policy", "test", file, "--json", code=6).error["errors"]

    assert [(one["path"], one["line"]) for one in errors] == [
        ("cases[0].what.effects[0]", 2),
        ("cases[0].expect", 2),
        ("cases[1].who", 3),
        ("cases[1].whom", 3),
    ]
    file.write_text("cases:\n  - {who: member, what: {call: a, use: b}, expect: ask}\n")
    assert "must be one of call, propose and use" in paddock.quickly("policy", "test", file, code=6).err


def test_try_describes_who_and_what_and_tells_what_would_change_it(paddock: Paddock) -> None:
    said = paddock.quickly(
        "policy", "try", "notes.add", "--as", "user:ann", "--role", "guest", "--effect", "db_write", "--json"
    ).json

    assert (said["who"], said["decision"], said["rules"]) == ("user:ann", "deny", [])
    assert {"change": "user:ann had the role member", "outcome": "allowed"} in said["would_change_it"]


def test_try_knows_what_is_installed_and_who_was_added(paddock: Paddock) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    paddock.quickly("user", "add", "ann", "--role", "guest")

    said = paddock.quickly("policy", "try", "native-notes.add_note", "--as", "user:ann", "--json").json

    assert (said["decision"], said["roles"]) == ("deny", ["guest"])
    assert said["target"] == {"effects": ["db_write"], "tags": [], "flags": [], "installed": True}
    assert said["would_change_it"][-1]["action"] == {
        "kind": "user.role.add",
        "arguments": {"user": "ann", "role": "member"},
    }
    paddock.quickly("policy", "try", "native-notes.add_note", "--as", "user:bob", code=3)
    assert "it offers: native-notes.add_note" in paddock.quickly("policy", "try", "native-notes.ad", code=3).err


def test_try_reads_an_installed_agents_allowlist(paddock: Paddock) -> None:
    paddock.quickly("plugin", "install", EXAMPLES / "kernel-switchboard", "--yes")

    said = paddock.quickly(
        "policy", "try", "Gone.Astray", "--as", "agent:Switchboard", "--effect", "read_only", "--json"
    )

    assert [rule["id"] for rule in said.json["rules"]] == ["agents-off-their-allowlist"]


@pytest.mark.parametrize("words", [("--effect", "db_wrte"), ("--tag", "pii_acess"), ("--kind", "agnt")])
def test_try_refuses_words_that_no_rule_could_know(paddock: Paddock, words: tuple[str, str]) -> None:
    assert "did you mean" in paddock.quickly("policy", "try", "a.b", *words, code=6).err
