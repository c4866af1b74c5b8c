"""The examples that help shows are typed as they stand there, in an order in which each has what it needs."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from documented.command_tree import addressed, leaves
from fixtures.butler import butler
from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon
from fixtures.packages import bundle, native, write_json, zipped
from paddock.cli.command import PaddockCommand

TESTS = Path(__file__).parents[2]
EXAMPLES = TESTS.parent / "examples"
WEATHER = {"type": "object", "properties": {"api_key": {"type": "string"}}, "required": ["api_key"]}
FIELDS = {"units": {"type": "string", "enum": ["metric", "imperial"]}, "days": {"type": "integer"}}
UNITS = {"type": "enum", "label": "Units", "values": ["metric", "imperial"], "default": "metric"}
DAYS = {"type": "int_range", "label": "Days", "min": 1, "max": 14, "step": 1, "default": 3}
TUNED = {
    "config_schema": {"type": "object", "properties": FIELDS},
    "knobs": {"units": {**UNITS, "binds_to": "config.units"}, "days": {**DAYS, "binds_to": "config.days"}},
}

# Each with what is typed at its questions.
WITHOUT_A_DAEMON = {
    "paddock doctor --json": [],
    "paddock config show --origin": [],
    "paddock policy check": [],
    "paddock policy check ./policies": [],
    "paddock policy show": [],
    "paddock policy show guests-may-read": [],
    "paddock policy test": [],
    "paddock policy test ./policy-cases.yaml": [],
    "paddock policy try notes.add --as user:ann --role guest --effect db_write": [],
    "paddock policy try Gmail.SendEmail --effect external_send": [],
    "paddock plugin check ./my-plugin": [],
    "paddock plugin new greeter": [],
    "paddock plugin new Letter.Answer --kind operator answers": [],
    "paddock plugin new lamp --lang shell": [],
    "paddock plugin check plugin.mcpb --show": [],
    "paddock key add ~/paddock-signing.pem": [],
    "paddock key show ~/paddock-signing.pem": [],
    "paddock plugin sign ./my-plugin --key ~/paddock-signing.pem": [],
    "paddock key trust 'ed25519:…' --label 'Example Labs'": [],
    "paddock key list --json": [],
    "paddock plugin install ./my-plugin": ["y"],
    "paddock key remove 'Example Labs'": ["y"],
    "paddock plugin pin notes 1.2.0": [],
    "paddock plugin pin notes --off": [],
    "paddock plugin upgrade notes": ["y"],
    "paddock plugin upgrade notes ./notes-2.0.zip": ["y"],
    "paddock plugin rollback notes --to 1.4.2": ["y"],
    "paddock plugin repair notes": [],
    "paddock plugin remove notes --yes": [],
    "paddock plugin configure weather": [],
    "paddock plugin knob weather": [],
    "paddock plugin knob weather units=imperial --reset days": [],
    "paddock import .vscode/mcp.json": ["y"],
    "paddock plugin list --kind operator --json": [],
    "paddock plugin show memory-markdown": [],
    "paddock plugin alias counter slow-count": [],
    """paddock plugin validate Switchboard#input '{"context":{}, "intent":{"intent_type":"a"}}'""": [],
    "paddock plugin enable memory-markdown": [],
    "paddock plugin disable memory-markdown": [],
    """paddock call slow-count.count --params '{"to": 3}'""": [],
    """paddock call slow-count.count -p '{"to": 3}' --idempotency-key 4f7c --wait""": [],
    """paddock call slow-count.count -p '{"to": 3}' --dry-run""": [],
    "paddock tenant add acme --title 'Acme Labs'": [],
    "paddock tenant list --json": [],
    "paddock tenant show acme": [],
    "paddock tenant remove acme --yes": [],
    "paddock user add ann --name 'Ann Lee' --role member --role approver": [],
    "paddock user list --json": [],
    "paddock user role add ann approver": [],
    "paddock user role remove ann approver": [],
    "paddock user scope add ann email:send": [],
    "paddock user scope remove ann email:send": [],
    "paddock user rename ann 'Ann Lee-Hill'": [],
    "paddock user disable ann": [],
    "paddock user enable ann": [],
    "paddock user show ann": [],
    "paddock group add night-shift --title 'Who is awake'": [],
    "paddock group member add night-shift ann": [],
    "paddock group member remove night-shift ann": [],
    "paddock group list --json": [],
    "paddock group show night-shift": [],
    "paddock group remove night-shift --yes": [],
    "paddock user session list": [],
    "paddock user identity list ann": [],
    "paddock user session list ann --json": [],
    "paddock user session remove ann": [],
    "paddock apikey add ann --label mailer --role member --expires 30d": [],
    "paddock apikey list --json": [],
    "paddock secret list --json": [],
    "paddock secret rotate --yes": [],
    "paddock consent add slow-count.count --for user:ann": ["y"],
    "paddock consent list --json": [],
    "paddock consent show slow-count.count --for user:ann": [],
    """paddock call slow-count.count -p '{"to": 3}' --as user:ann""": [],
    "paddock consent remove slow-count.count --for user:ann": [],
    "paddock user remove ann --yes": [],
    "paddock inbox list": [],
    "paddock inbox list --kind approval --json": [],
    "paddock approval list": [],
    "paddock approval list --all --json": [],
    "paddock approval standing list": [],
    "paddock approval standing list --all --json": [],
    "paddock call unresolved list --json": [],
    "paddock call unresolved list --resolved": [],
    "paddock ledger verify": [],
    "paddock ledger export ledger.jsonl": [],
    "paddock ledger erase user:ann --reason 'asked to be forgotten' --yes": [],
    "paddock plugin tools slow-count": [],
    "paddock plugin tools slow-count count": [],
    "paddock plugin resources library memo://one": [],
    "paddock plugin resources library": [],
    """paddock plugin prompts library greet --params '{"who": "Ann"}'""": [],
    "paddock plugin prompts library": [],
}
LEAVES = leaves()
ELSEWHERE = {
    "paddock plugin install ./my-plugin --grant 'net:*' --yes": "asks for it; tests/cli/install/test_cli_dangers.py",
    "paddock plugin install ./server.py": "a server of one's own; tests/environments/test_server_files.py",
    "paddock plugin check ./server.py": "a server of one's own; tests/cli/install/test_cli_server_file.py",
    "paddock plugin try server-filesystem": "needs a registry; tests/cli/install/test_cli_try.py",
    "paddock plugin try server-filesystem --yes --write": "needs a registry; tests/registry/test_learned_grants.py",
    "paddock plugin try git --call git_status": "needs a registry; tests/cli/install/test_cli_try.py",
    "paddock mcp": "goes on; tests/mcp_proofs/test_stdio.py",
    "paddock mcp --as user:ann": "goes on; tests/mcp_proofs/test_stdio.py",
    "paddock mcp --tenant acme": "goes on; tests/mcp_proofs/test_stdio.py",
    "paddock user identity remove ann": "needs a provider; tests/cli/identity/test_cli_principals.py",
    "paddock user identity add ann --subject 00u1abcd": "needs a provider; tests/api/oidc",
    "paddock webhook add https://example.com/hook --type 'call.*' --label tickets": "needs a receiver; tests/webhooks",
    "paddock webhook dead-letter list ID --json": "needs a receiver; tests/webhooks",
    "paddock webhook disable ID": "needs a receiver; tests/webhooks",
    "paddock webhook enable ID --from-now": "needs a receiver; tests/webhooks",
    "paddock webhook list --json": "needs a receiver; tests/webhooks",
    "paddock webhook remove ID --yes": "needs a receiver; tests/webhooks",
    "paddock webhook dead-letter retry ID --all": "needs a receiver; tests/webhooks",
    "paddock webhook dead-letter retry ID EVENT": "needs a receiver; tests/webhooks",
    "paddock webhook rotate ID --keep 48": "needs a receiver; tests/webhooks",
    "paddock webhook show ID": "needs a receiver; tests/webhooks",
    "paddock webhook test ID": "needs a receiver; tests/webhooks",
    "paddock approval approve ID": "needs a request; tests/cli/policy/test_cli_approval.py",
    "paddock approval approve ID --once -y": "needs a request; tests/cli/policy/test_cli_approval.py",
    "paddock approval deny ID -m 'not to her' -y": "needs a request; tests/cli/policy/test_cli_approval.py",
    "paddock approval standing remove ID": "needs a standing approval; tests/cli/policy/test_cli_approval.py",
    "paddock approval show ID": "needs a request; tests/cli/policy/test_cli_approval.py",
    "paddock inbox show ID": "needs an item; tests/cli/policy/test_cli_inbox.py",
    "paddock policy file list": "needs rule files; tests/api/test_policy_files.py",
    "paddock policy file show night-shift.cedar": "needs a rule file; tests/api/test_policy_files.py",
    "paddock policy file show night-shift.cedar --version pol_…": "needs versions; tests/api/test_policy_files.py",
    "paddock policy file set night-shift.cedar ./draft.cedar": "asks; tests/api/test_policy_files.py",
    "paddock policy file remove night-shift.cedar --yes": "needs a rule file; tests/api/test_policy_files.py",
    "paddock explain ID": "needs a decision; tests/cli/policy/test_cli_approval.py",
    "paddock explain ID --as user:ann": "needs a decision; tests/cli/policy/test_cli_approval.py",
    "paddock ledger tail --plugin notes --follow": "goes on; tests/cli/ledger/test_cli_ledger.py",
    "paddock ledger show ID": "needs an entry; tests/cli/ledger/test_cli_ledger.py",
    "paddock ledger verify --anchor": "needs anchors; tests/cli/ledger/test_cli_anchors.py",
    "paddock ledger verify --anchor ./default.checkpoints.jsonl": "checkpoints; tests/cli/ledger/test_cli_ledger.py",
    "paddock call unresolved show CALL": "needs a killed host; tests/cli/calls/test_cli_unresolved.py",
    "paddock call unresolved resolve CALL --happened": "needs a killed host; tests/cli/calls/test_cli_unresolved.py",
    "paddock call unresolved resolve CALL --not-happened": "a killed host; tests/cli/calls/test_cli_unresolved.py",
    "paddock secret set api_key": "reads the value where nobody asks yes or no; tests/cli/secrets/test_cli_secret.py",
    "paddock secret set api_key --user ann": "reads the value in the same way; tests/cli/secrets/test_cli_secret.py",
    "paddock secret show api_key": "needs a secret; tests/cli/secrets/test_cli_secret.py",
    "paddock secret remove api_key --yes": "needs a secret; tests/cli/secrets/test_cli_secret.py",
    "paddock secret rotate --to keyring": "needs a keyring; tests/cli/secrets/test_cli_secret.py",
    "paddock apikey show KEY": "needs a key; tests/cli/identity/test_cli_principals.py",
    "paddock apikey remove KEY --yes": "needs a key; tests/cli/identity/test_cli_principals.py",
    "paddock plugin install git+https://host/x.git#v1.0": "needs a server; tests/plugins",
    "paddock plugin install pypi:mcp-server-time": "needs a registry; tests/registry",
    "paddock plugin accept": "needs a server that changed; tests/cli/plugins/test_cli_accept.py",
    "paddock plugin accept files read_file --yes": "needs a server that changed; tests/cli/plugins/test_cli_accept.py",
    "paddock plugin configure weather api_key": "reads the value where nobody asks yes or no; see below",
    "paddock login": "needs a daemon; tests/api/identity/test_sessions.py",
    "paddock login --user ann": "needs a daemon; tests/api/identity/test_sessions.py",
    "paddock serve --log-format json": "goes on; see below",
    "paddock plugin logs slow-count --follow": "goes on; see below",
    "paddock demo": "goes on; tests/fixtures/demos.py",
    "paddock demo --stay --port 8080 --no-browser": "goes on; tests/fixtures/demos.py",
    "paddock backup /mnt/backups/paddock.tar": "needs that disk; tests/cli/home/test_cli_backup.py",
    "paddock restore /mnt/backups/paddock.tar": "needs a backup; tests/cli/home/test_cli_backup.py",
    "paddock import": "needs other clients; tests/cli/mcp_import/test_cli_import_found.py",
    "paddock import time --replace": "needs other clients; tests/cli/mcp_import/test_cli_import_found.py",
    "paddock serve --port 8080": "goes on; tests/cli/daemon/test_cli_serve.py",
    "paddock plugin trust files": "needs a server; tests/cli/plugins/test_cli_trust.py",
    "paddock plugin trust files --reads": "needs a server; tests/cli/plugins/test_cli_trust.py",
    "paddock plugin trust files --reads --off": "needs a server; tests/cli/plugins/test_cli_trust.py",
    "paddock plugin trust files write_file --errors": "needs a server; tests/cli/plugins/test_cli_trust.py",
    "paddock dev ./my-plugin": "goes on; see below",
    """paddock dev ./my-plugin --call greet --params '{"name": "Ann"}' --once --yes""": "has to run; see below",
    "paddock plugin pack ./my-plugin": "needs a plugin that runs; tests/authoring/test_pack.py",
    "paddock plugin pack ./my-plugin --output my-plugin.zip": "needs a plugin that runs; tests/authoring/test_pack.py",
    "paddock plugin sync ./my-plugin": "needs a plugin that runs; tests/authoring/test_sync.py",
    "paddock plugin test ./my-plugin": "needs a plugin that runs; see below",
    "paddock plugin test ./my-plugin --effects": "needs a plugin that runs; see below",
    """paddock call slow-count.count -p '{"to": 3}' --detach""": "needs a daemon; see below",
    """paddock call slow-count.count -p '{"to": 3}' --as acme/user:bob""": "a tenant; tests/cli/identity",
    "paddock plugin enable notes --tenant acme --yes": "a tenant; tests/cli/identity/test_cli_tenants.py",
    "paddock plugin grant notes": "what it requests; tests/cli/plugins/test_cli_grant.py",
    "paddock plugin grant notes 'net:*' --tenant acme --yes": "a tenant; tests/cli/plugins/test_cli_grant.py",
    "paddock artifact show artifact://sha256/0a1b…": "needs one; tests/cli/calls/test_cli_artifact.py",
    "paddock artifact get artifact://sha256/0a1b… --output report.pdf": "one; tests/cli/calls/test_cli_artifact.py",
    "paddock call list --json": "needs a daemon; see below",
    "paddock call show ID --json": "needs a call; see below",
    "paddock call follow ID": "needs a call; see below",
    """paddock call answer ID '{"colour": "red"}'""": "needs a question; tests/cli/calls/test_cli_questions.py",
    "paddock call cancel ID": "needs a call; see below",
}


ABOUT_A_CALL = {("call", "list"), ("call", "show"), ("call", "follow"), ("call", "cancel")}


def shown_examples() -> set[str]:
    """Every example of every command."""
    return {example for command in LEAVES.values() for example in command.examples}


def address(example: str) -> tuple[tuple[str, ...], PaddockCommand, list[str]]:
    found = addressed(example)
    assert found is not None, example
    return found


def test_every_example_of_the_help_is_typed_below_or_its_command_elsewhere() -> None:
    assert shown_examples() == {*WITHOUT_A_DAEMON, *ELSEWHERE}
    for example, reason in ELSEWHERE.items():
        place = reason.rpartition("; ")[2]
        if place != "see below":
            path, (names, *_) = TESTS.parent / place, address(example)
            files = [path] if path.is_file() else [*path.rglob("*.py")]
            typed = re.compile(r"""["\s]""" + r"""["',\s]+""".join(names) + r"""["\s]""")
            assert any(typed.search(file.read_text(encoding="utf-8")) for file in files), f"{example}: {reason}"


def test_an_example_that_is_not_typed_here_is_understood_by_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-plugin").mkdir()
    for example in ELSEWHERE:
        names, command, words = address(example)
        try:
            command.make_context(names[-1], words)
        except Exception as wrong:
            pytest.fail(f"{example}: {wrong}")


@pytest.fixture
def stage(paddock: Paddock) -> Paddock:
    """A folder with everything that the examples speak of."""
    here = paddock.home.parent
    native(here / "my-plugin", "my-plugin")
    zipped(bundle(here / "bundle", "bundled"), here / "server.mcpb")
    shutil.copy(here / "server.mcpb", here / "plugin.mcpb")
    write_json(here / ".vscode" / "mcp.json", {"servers": {"search": {"type": "stdio", "command": "python3"}}})
    zipped(native(here / "notes-2", version="2.0.0"), here / "notes-2.0.zip")
    (here / "policies").mkdir()
    (here / "policy-cases.yaml").write_text("cases: [{who: member, what: notes.add, expect: allow}]")
    for package in (
        native(here / "notes", version="1.2.0"),
        butler(here / "library", "library"),
        native(here / "weather", "weather", system_config_schema=WEATHER, **TUNED),
        *(EXAMPLES / name for name in ("memory-markdown", "slow-count", "kernel-switchboard")),
    ):
        paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("plugin", "enable", "slow-count", "--no-start")
    paddock.quickly("plugin", "enable", "library")
    return paddock


def words_of(example: str, paddock: Paddock) -> list[str]:
    """As a shell would hand them over."""
    home = str(paddock.home.parent)
    return [word.replace("~/", f"{home}/") if word.startswith("~") else word for word in shlex.split(example)[1:]]


@pytest.mark.slow
def test_the_examples_of_the_help_work_as_they_stand_there(stage: Paddock) -> None:
    for example, answers in WITHOUT_A_DAEMON.items():
        if example == "paddock plugin upgrade notes":
            native(stage.home.parent / "notes", version="1.4.2")
        words = words_of(example, stage)
        if "…" in example:
            key = stage.quickly(*words_of("paddock key show ~/paddock-signing.pem --json", stage)).json["public_key"]
            words = [key if "…" in word else word for word in words]
        screen = stage.on_terminal(*words, answers=answers)
        assert screen.strip(), f"{example} shows nothing"
        assert not [line for line in screen.splitlines() if line.startswith(("error", "waiting"))], example


def test_the_example_of_configure_takes_the_value(stage: Paddock) -> None:
    done = stage.piped("hunter2\n", *words_of("paddock plugin configure weather api_key", stage))

    assert "set api_key of weather" in done.err


def interrupted(paddock: Paddock, example: str, first: str) -> int:
    """The exit code of a command that is interrupted once its first line begins as it should."""
    with paddock.start(*words_of(example, paddock)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert first in line
    return process.returncode


@pytest.mark.slow
def test_the_example_of_serve_is_a_daemon(stage: Paddock) -> None:
    assert interrupted(stage, "paddock serve --log-format json", "ready: ") == 0


@pytest.mark.slow
def test_the_examples_of_calls_look_at_what_detaching_left_to_the_daemon(stage: Paddock) -> None:
    with daemon(stage):
        call_id = stage(*words_of("""paddock call slow-count.count -p '{"to": 3}' --detach""", stage)).out.strip()
        stage("call", "follow", call_id)
        for example in (example for example in ELSEWHERE if address(example)[0] in ABOUT_A_CALL):
            said = stage(*words_of(example.replace("ID", call_id), stage))
            assert said.out or "succeeded" in said.err, example


@pytest.mark.slow
def test_the_example_of_logs_goes_on_until_it_is_interrupted(stage: Paddock) -> None:
    with daemon(stage):
        stage("call", "slow-count.squares", "-p", '{"to": 1000}', "--timeout", "1", code=8)
        assert interrupted(stage, "paddock plugin logs slow-count --follow", "nobody wants the rest") == 130


@pytest.mark.slow
def test_the_examples_for_authors_run_a_plugin_from_its_folder(paddock: Paddock) -> None:
    paddock.quickly("plugin", "new", "my-plugin", paddock.home.parent / "my-plugin")
    for example in ("paddock plugin test ./my-plugin", "paddock plugin test ./my-plugin --effects"):
        assert "0 failed" in paddock(*words_of(example, paddock)).out
    once = """paddock dev ./my-plugin --call greet --params '{"name": "Ann"}' --once --yes"""
    assert "Hello, Ann!" in paddock(*words_of(once, paddock)).out
    screen = paddock.on_terminal(*words_of("paddock dev ./my-plugin", paddock), answers=["n"], code=4)
    assert "Run my-plugin 0.1.0?" in screen
