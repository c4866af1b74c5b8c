"""`paddock plugin test`: each check lets a sound plugin pass, and names what is wrong with one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.authoring.workbench import edit, findings, made
from tests.fixtures.packages import write_file, write_json

from paddock.authoring.checks.plugin_under_test import CheckResult, CheckVerdict

AGENT = "greeter/agent.py"
OPERATOR = "greeter/operator.py"
TOOL = "greeter/tool.py"
ADAPTER = "greeter/adapter.py"


async def found(tmp_path: Path, kind: str, check: str, file: str = "", old: str = "", new: str = "") -> CheckResult:
    """What one check says of a new plugin in which one thing was changed."""
    folder = made(tmp_path / "plugin", kind)
    if file:
        edit(folder / file, old, new)
    return (await findings(folder, tmp_path / "home"))[check]


@pytest.mark.parametrize(
    ("check", "old", "new", "why"),
    [
        pytest.param(
            "agent schema validation", '"confidence": confidence,', "", "breaks its output schema",
            marks=pytest.mark.req("K-19", "agent schema validation"),
        ),
        pytest.param(
            "agent schema validation", '"required_actions": []',
            '"required_actions": [{"operator": ACTION, "payload": {}, "idempotency_hint": "answer:{letter_id}"}]',
            "{letter_id} is not in the payload",
        ),
        pytest.param(
            "agent required context", "if text is None:", "if False:", "did not answer NEEDS_CONTEXT",
            marks=pytest.mark.req("K-19", "agent required context"),
        ),
        pytest.param(
            "agent required context", '"missing": ["letter.text"]', '"missing": ["letter"]', "did not name it",
            marks=pytest.mark.req("K-19", "agent required context"),
        ),
        pytest.param(
            "agent forbidden operators", 'ACTION = "Letter.Answer"', 'ACTION = "Forbidden.Operator"',
            "it proposes Forbidden.Operator", marks=pytest.mark.req("K-19", "agent forbidden operators"),
        ),
    ],
)  # fmt: skip
async def test_an_agent_that_breaks_its_contract_is_told_how(
    tmp_path: Path, check: str, old: str, new: str, why: str
) -> None:
    finding = await found(tmp_path, "agent", check, AGENT, old, new)

    assert (finding.verdict, why in finding.why) == (CheckVerdict.FAIL, True), finding


@pytest.mark.parametrize(
    ("check", "old", "new", "why"),
    [
        pytest.param(
            "operator permission", '@requires_scopes("notes:write")\n', "", "without notes:write it answered",
            marks=pytest.mark.req("K-19", "operator permission"),
        ),
        pytest.param(
            "operator determinism disclosure", "To {payload.to}:", "To {payload.to} {__import__('os').urandom(8)}:",
            "two runs gave different results", marks=pytest.mark.req("K-19", "operator determinism disclosure"),
        ),
        pytest.param(
            "operator input validation", "payload = read_payload(Payload, call[\"payload\"])",
            "payload = Payload(to='x', text='y')", "an empty payload was answered with a success",
        ),
    ],
)  # fmt: skip
async def test_an_operator_that_breaks_its_contract_is_told_how(
    tmp_path: Path, check: str, old: str, new: str, why: str
) -> None:
    finding = await found(tmp_path, "operator", check, OPERATOR, old, new)

    assert (finding.verdict, why in finding.why) == (CheckVerdict.FAIL, True), finding


@pytest.mark.req("K-19", "operator determinism disclosure")
async def test_an_operator_that_says_that_its_results_differ_may_have_them_differ(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin", "operator")
    edit(folder / OPERATOR, "To {payload.to}:", "To {payload.to} {__import__('os').urandom(8)}:")
    edit(folder / OPERATOR, ', stability="high")', ', "chance")')

    finding = (await findings(folder, tmp_path / "home"))["operator determinism disclosure"]

    assert (finding.verdict, finding.why) == (CheckVerdict.PASS, "disclosed")


@pytest.mark.req("K-19", "operator side effect declaration")
async def test_an_operator_that_writes_what_it_does_not_declare_is_found_out(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin", "operator")
    edit(folder / "manifest.json", '"effects": ["produce_outcome"]', '"effects": []')
    edit(folder / "paddock.yaml", "runtime:", "capabilities: [host:storage]\nruntime:")
    edit(
        folder / OPERATOR,
        "def write_note(call: Mapping[str, Any])",
        "def write_note(call: Mapping[str, Any], host: Any)",
    )
    edit(
        folder / OPERATOR, "    # Name reasons", '    host.storage.put("note", payload.text).wait()\n    # Name reasons'
    )

    finding = (await findings(folder, tmp_path / "home"))["operator side effect declaration"]

    assert (finding.verdict, finding.why) == (
        CheckVerdict.FAIL, "it declares that it changes nothing, and used keyvalue.put",
    )  # fmt: skip


@pytest.mark.req("K-19", "tool purity")
@pytest.mark.req("K-23", "tool")
async def test_a_tool_that_remembers_what_it_was_asked_is_found_out(tmp_path: Path) -> None:
    counting = 'count.asked = getattr(count, \'asked\', 0) + 1; return {"words": count.asked} or {"words":'

    finding = await found(tmp_path, "tool", "tool purity", TOOL, 'return {"words":', counting)

    assert (finding.verdict, "differently the second time" in finding.why) == (CheckVerdict.FAIL, True), finding


@pytest.mark.req("K-19", "adapter mapping")
async def test_an_adapter_whose_intents_have_no_type_is_found_out(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin", "adapter")
    edit(folder / ADAPTER, '"intent_type": "Support.QA.Answer", ', "")
    edit(folder / "schemas" / "intent.v1.json", '"required": ["intent_type"], ', "")

    finding = (await findings(folder, tmp_path / "home"))["adapter mapping"]

    assert (finding.verdict, "no intent_type" in finding.why) == (CheckVerdict.FAIL, True), finding


@pytest.mark.parametrize(
    ("check", "old", "new", "why"),
    [
        ("handshake", '"greeter", "0.1.0"', '"greeter", "0.2.0"', "it says it is version '0.2.0'"),
        pytest.param(
            *("handshake", "from paddock_sdk import Plugin", "import nothing_of_the_kind", "nothing_of_the_kind"),
            marks=pytest.mark.slow,
        ),
        ("standard output", "plugin.run()", "import os; os.write(1, b'hello\\n'); plugin.run()", "hello"),
        ("call greet", '{"text": f', '{"words": f', "answered otherwise than it promised"),
        ("call greet", "plugin.log.info", "raise ValueError('no')\n    plugin.log.info", "greeter failed (ValueError)"),
        ("shutdown", "plugin.run()", "plugin.run()\n    import time; time.sleep(60)", "still there after 1 s"),
        (
            "configuration", "@plugin.tool",
            "from paddock_sdk import ConfigInvalid\n@plugin.on_config\ndef check(config): raise ConfigInvalid('no')\n"
            "@plugin.tool", "no",
        ),
    ],
)  # fmt: skip
async def test_a_plugin_that_breaks_the_protocol_is_told_how(
    tmp_path: Path, check: str, old: str, new: str, why: str
) -> None:
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", old, new)
    edit(folder / "paddock.yaml", "config_schema:", "timing: { shutdown_sec: 1 }\nconfig_schema:")

    finding = (await findings(folder, tmp_path / "home"))[check]

    assert (finding.verdict, why in finding.why) == (CheckVerdict.FAIL, True), finding


async def test_a_method_that_is_declared_and_not_served_or_served_and_not_declared_is_found_out(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin", "plugin", "shell")
    edit(folder / "plugin.sh", "[greeting.get]=greet", "[greeting.other]=greet")

    finding = (await findings(folder, tmp_path / "home"))["declared callables"]

    told = "the manifest declares greeting.get, the program serves greeting.other"
    assert (finding.verdict, finding.why) == (CheckVerdict.FAIL, told)


async def test_a_tool_that_the_program_calls_otherwise_is_told_by_both_names_and_no_payload_is_blamed(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", "def greet(", "def greeet(")

    found = await findings(folder, tmp_path / "home")

    named, called = found["declared callables"], found["call greet"]
    assert (named.verdict, named.why) == (CheckVerdict.FAIL, "the manifest declares greet, the program serves greeet")
    assert "method_not_found" in called.why and "payload" not in called.hint and "under the name" in called.hint


async def test_a_syntax_error_is_told_with_its_place_in_the_folder_of_its_author(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", "def greet(", "def greet((")

    finding = (await findings(folder, tmp_path / "home"))["handshake"]

    assert (finding.verdict, str(folder / "main.py") in finding.why) == (CheckVerdict.FAIL, True), finding
    assert finding.hint == "fix it, and save"


async def test_a_call_that_never_ends_is_not_blamed_on_its_payload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.host.learn.trial_run.CALL_TIMEOUT_S", 1.0)
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", "plugin.log.info", "import time; time.sleep(600)\n    plugin.log.info")
    edit(folder / "paddock.yaml", "config_schema:", "timing: { shutdown_sec: 1 }\nconfig_schema:")

    called = (await findings(folder, tmp_path / "home"))["call greet"]

    assert (called.verdict, called.hint) == (CheckVerdict.FAIL, "")


async def test_what_changes_something_is_called_only_when_the_author_says_so(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin", "operator")

    careful = await findings(folder, tmp_path / "home", effects=False)
    bold = await findings(folder, tmp_path / "home", effects=True)

    assert (careful["call greeter"].verdict, bold["call greeter"].verdict) == (CheckVerdict.SKIP, CheckVerdict.PASS)
    assert "allow effects" in careful["call greeter"].hint


async def test_a_plugin_that_never_answers_has_its_other_checks_left_out(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", "plugin.run()", "raise SystemExit(4)")

    found = await findings(folder, tmp_path / "home")

    assert found["handshake"].verdict is CheckVerdict.FAIL
    assert {found[name].verdict for name in ("ping", "configuration", "shutdown")} == {CheckVerdict.SKIP}


KEEPER = """
from paddock_sdk import Host, Plugin
plugin = Plugin("keeper", "1.0.0")
@plugin.tool
def keep(host: Host) -> dict:
    return {"uri": host.artifacts.put(b"x" * 100_000).wait()}
@plugin.tool
def drop(host: Host) -> dict:
    return {"gone": host.artifacts.delete("artifact://sha256/" + "0" * 64).wait()}
@plugin.tool
def make(host: Host) -> dict:
    host.sql.exec("CREATE TABLE IF NOT EXISTS t (a, b AS (a))").wait()
    return {}
@plugin.tool
def copy(host: Host) -> dict:
    host.sql.exec("CREATE TABLE IF NOT EXISTS c AS SELECT randomblob(10) AS x").wait()
    return {}
@plugin.tool
def look(host: Host) -> dict:
    return host.sql.query("SELECT a FROM things").wait()
plugin.run()
"""


async def test_tools_that_say_they_change_nothing_are_taken_at_their_word_only_where_it_is_true(tmp_path: Path) -> None:
    tools = [
        {"name": name, "description": name, "effects": ["read_only"], "input_schema": {"type": "object"}}
        for name in ("keep", "drop", "make", "copy", "look")
    ]
    about = {"paddock": 1, "name": "keeper", "version": "1.0.0", "description": "x", "tools": tools}
    about |= {"runtime": {"command": ["python3", "./main.py"]}, "capabilities": ["storage:write", "host:artifacts"]}
    write_json(tmp_path / "plugin" / "paddock.yaml", about)
    write_file(tmp_path / "plugin" / "main.py", KEEPER)

    found = await findings(tmp_path / "plugin", tmp_path / "home")

    assert found["call keep"].verdict is CheckVerdict.PASS, found
    assert "used artifacts.delete" in found["call drop"].why
    # An empty table holds nothing; one that is filled as it is made does.
    assert found["call make"].verdict is CheckVerdict.PASS, found
    assert "used storage.exec" in found["call copy"].why
    assert "no such table: things" in found["call look"].why
    assert "run CREATE TABLE IF NOT EXISTS first" in found["call look"].hint


ATOMIC = """
from paddock_sdk import Context, Plugin
plugin = Plugin("keeper", "1.0.0")
@plugin.tool
def keep(text: str, context: Context) -> dict[str, str]:
    \"\"\"Keep a text.\"\"\"
    plugin.storage.exec("CREATE TABLE IF NOT EXISTS texts (text TEXT, key TEXT)")
    with plugin.storage.transaction() as tables:
        tables.exec("INSERT INTO texts VALUES (?, ?)", [text, context.idempotency_key])
        tables.answers({"text": text})
    return {"text": text}
plugin.run()
"""


async def test_a_tool_with_atomic_recovery_is_called_as_the_guide_writes_it(tmp_path: Path) -> None:
    properties = {"text": {"type": "string"}}
    schema = {"type": "object", "required": ["text"], "additionalProperties": False, "properties": properties}
    tool = {"name": "keep", "description": "Keep a text.", "effects": ["db_write"], "recovery": "atomic"}
    about = {"paddock": 1, "name": "keeper", "version": "1.0.0", "description": "x"}
    about |= {"runtime": {"command": ["python3", "./main.py"]}, "capabilities": ["storage:write"]}
    write_json(tmp_path / "plugin" / "paddock.yaml", {**about, "tools": [{**tool, "input_schema": schema}]})
    write_file(tmp_path / "plugin" / "main.py", ATOMIC)

    found = await findings(tmp_path / "plugin", tmp_path / "home")

    assert found["call keep"].verdict is CheckVerdict.PASS, found["call keep"]


async def test_a_call_that_uses_what_its_manifest_does_not_ask_for_is_told_what_to_declare(tmp_path: Path) -> None:
    changed = 'plugin.storage.query("SELECT 1")\n    plugin.log.info("greeting", name=name)'
    finding = await found(
        tmp_path, "plugin", "call greet", "main.py", 'plugin.log.info("greeting", name=name)', changed
    )

    assert finding.verdict is CheckVerdict.FAIL and "storage:read" in finding.hint, finding
