"""A consent screen names everything a person agrees to."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from tests.manifest.documents import SEEDS, kaged, native, shu, sound
from tests.manifest.strategies import manifests

from paddock.core.printable import printable
from paddock.manifest.capability import NoNetwork, describe_capability
from paddock.manifest.consent_text import behaviour_summary, consent_sections
from paddock.manifest.diff import diff_manifests
from paddock.manifest.effects import EFFECT_TEXT
from paddock.manifest.model import Behaviour, Manifest
from paddock.manifest.permissions import callable_effects
from paddock.manifest.read import read_bytes
from paddock.manifest.secret_use import parse_recipient


def lines_of(manifest: Manifest) -> list[str]:
    return [line for section in consent_sections(manifest) for line in section.lines]


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(manifests())
def test_every_capability_and_every_effect_is_on_the_screen(manifest: Manifest) -> None:
    lines = lines_of(manifest)

    for capability in manifest.capabilities:
        if not isinstance(capability, NoNetwork):
            assert f"{capability} — {describe_capability(capability)}" in lines
    for spec in manifest.callables:
        for effect in callable_effects(manifest, spec):
            assert any(line.startswith(EFFECT_TEXT[effect]) for line in lines)
    assert all(line.isprintable() and line for line in lines)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(manifests())
def test_what_alarms_is_one_of_the_lines(manifest: Manifest) -> None:
    for section in consent_sections(manifest):
        assert set(section.alarming) <= set(section.lines)


def test_a_remote_server_is_said_to_be_uncaged_and_to_whom_it_leads() -> None:
    manifest = sound(native(runtime={"url": "https://mcp.example/x"}, capabilities=["net:mcp.example:443"]))
    (reach,) = [section for section in consent_sections(manifest) if section.title == "What it may reach"]

    assert "NOT caged" in reach.alarming[0]
    assert "https://mcp.example/x" in reach.alarming[0]
    assert "connect to mcp.example on port 443" in reach.lines[1]


def test_a_plugin_that_asks_for_nothing_is_said_to_reach_nothing() -> None:
    assert "Nothing: no files, no network, no programs" in lines_of(sound(kaged()))


def test_the_broadest_requests_are_alarming() -> None:
    manifest = sound(kaged(capabilities=["net:*", "read:fs:/", "read:fs:/opt/one/folder"]))
    (reach,) = [section for section in consent_sections(manifest) if section.title == "What it may reach"]

    assert [line.partition(" ")[0] for line in reach.alarming] == ["net:*", "read:fs:/"]


def test_the_printed_formula_is_summed_up_in_words() -> None:
    manifest = sound(read_bytes("manifest.yaml", (SEEDS / "fourth-generation-formula.yaml").read_bytes()))
    assert manifest.behaviour is not None
    summary = behaviour_summary(manifest.behaviour)

    assert "Supportive coach focused on legacy and transfer" in summary
    assert "legacy, transfer, family business" in summary
    assert summary.endswith("You can still ask for direct feedback anytime.")
    lines = lines_of(manifest)
    assert "Reads your private knowledge vault" in lines
    assert "Stores its own progress in your private vault" in lines


def test_a_plugin_that_takes_blunt_feedback_away_says_so() -> None:
    behaviour = Behaviour(honesty_override=True, honesty_mode="drill_sergeant", direct_feedback_kept=False)

    assert "NOT available" in behaviour_summary(behaviour)
    assert "drill sergeant" in behaviour_summary(behaviour)


def test_a_summary_does_not_steer_the_screen() -> None:
    assert behaviour_summary(Behaviour(style="\x1b[31mred\nline")).isprintable()
    assert printable("\x1b") == "\\x1b"


def test_hooks_roles_secrets_and_accounts_are_named() -> None:
    manifest = sound(
        native(
            hooks=["pre_compact", "on_session_idle"],
            roles=["compactor"],
            secrets=["api_key"],
            identities=[{"provider": "google", "mode": "domain_delegate", "scopes": ["mail"], "optional": True}],
            requires={"tools": ["Doc.Summarize@1.x"], "context_fields": ["student.profile"]},
            allowed_actions=["Email.GenerateDraft"],
            system_config_schema={"properties": {"token": {}}},
        )
    )
    whole = "\n".join(lines_of(manifest))

    for said in ("pre compact", "rewrite the conversation", "api_key", "google", "domain delegate", "(optional)"):
        assert said in whole
    for said in ("Doc.Summarize", "student.profile", "Email.GenerateDraft", "token"):
        assert said in whole


def runs(manifest: Manifest) -> tuple[str, ...]:
    (section,) = [section for section in consent_sections(manifest) if section.title == "What it runs"]
    assert section.alarming == section.lines
    return section.lines


def test_the_command_that_will_run_is_shown_word_for_word_and_first() -> None:
    command = ["docker", "run", "-v", "/:/host", "my image", "$(id)"]
    runtime = {"command": command, "cwd": "/srv", "env": {"LD_PRELOAD": "/tmp/x y.so"}}
    manifest = sound(native(runtime=runtime))

    assert consent_sections(manifest)[0].title == "What it runs"
    assert runs(manifest) == (
        "Runs the command: docker run -v /:/host 'my image' '$(id)'",
        "In the directory: /srv",
        "With the variables: LD_PRELOAD='/tmp/x y.so'",
    )


def test_a_program_of_its_package_and_what_is_kept_on_this_machine_are_said_in_words() -> None:
    command = ["environment:mcp-server-time", "--key", "${user_config.api_key}", "--as=${user_config.who}!"]
    env = {"TOKEN": "${user_config.token}", "SAME": "${user_config.SAME}", "LOOKS": "token (kept on this machine)"}

    assert runs(sound(native(runtime={"command": ["environment:mcp-server-time"]}))) == (
        "Runs the program mcp-server-time of its package",
    )
    assert runs(sound(native(runtime={"command": command, "env": env}))) == (
        "Runs the program mcp-server-time of its package, with: --key api_key (kept on this machine) "
        "--as=<who (kept on this machine)>'!'",
        "With the variables: TOKEN=token (kept on this machine) SAME (kept on this machine) "
        "LOOKS='token (kept on this machine)'",
    )


def test_python_code_and_a_remote_address_are_what_runs_too() -> None:
    assert runs(sound(native(runtime={"python": {"hello": "pkg.mod:Main"}}))) == (
        "Runs the Python code: pkg.mod:Main (as hello)",
    )
    assert runs(sound(native(runtime={"url": "https://mcp.example/x"}))) == ("Connects to: https://mcp.example/x",)


def test_the_end_of_a_long_command_and_its_escape_sequences_are_seen() -> None:
    lines = runs(sound(native(runtime={"command": ["sh", "-c", "\x1b[2J" + "x" * 3000 + "; evil"]})))

    assert all(line.isprintable() and len(line) <= 400 for line in lines)
    assert "\\x1b[2J" in lines[0]
    assert lines[-1].endswith("; evil'")

    endless = runs(sound(native(runtime={"command": ["sh", *["x" * 4000] * 9]})))
    assert ["characters more" in line for line in endless].count(True) == 1
    assert sum(map(len, endless)) < 12_000


def test_a_changed_command_is_a_change_that_an_upgrade_shows() -> None:
    def version(number: str, *command: str) -> Manifest:
        return sound(native(version=number, runtime={"command": list(command)}))

    upgrade = diff_manifests(
        version("1.0.0", "node", "a.js"), version("1.0.1", "node", "b.js"), lambda one: one, lambda one: one
    )
    assert upgrade.changes[:2] == ("no longer: Runs the command: node a.js", "new: Runs the command: node b.js")


def test_what_a_plugin_is_trusted_with_is_shown_to_the_last_entry() -> None:
    many = [f"entry-{index}" for index in range(60)]
    manifest = sound(
        native(
            secrets=[f"secret-{one}" for one in many],
            identities=[{"provider": "google", "scopes": [f"scope-{one}" for one in many]}],
            allowed_actions=[f"action-{one}" for one in many],
            feeds={"allowed_ops": [f"feed-{one}" for one in many]},
            operation_auth={
                "send": {"provider": "google", "mode": "user", "scopes": ["mail.send"], "secrets": {"key": "system"}}
            },
            runtime={"url": "https://a.example", "headers": {"X-Key": "hidden-value"}},
            tools=[{"name": "pay", "requires_approval": True, "required_scopes": ["money"], "effects": ["db_write"]}],
        )
    )
    shown = "\n".join(line for section in consent_sections(manifest) for line in section.lines)
    unbroken = "".join(re.sub(r"^\(line \d+\) ", "", line) for line in shown.splitlines())

    for kind in ("secret", "scope", "action", "feed"):
        assert all(f"{kind}-{one}" in unbroken for one in many)
    assert "send acts with your google account as user: mail.send" in shown
    assert "send uses the secrets key (system)" in shown
    assert "With the headers: X-Key" in shown
    assert "hidden-value" not in shown
    assert "Has a person approve each call: pay" in shown
    assert "Keeps pay to callers with scopes: money" in shown


def test_a_tool_that_may_change_anything_is_named_so_and_nobody_promises_to_ask_before_it_does() -> None:
    manifest = sound(native(capabilities=["net:api.example.com:443"], tools=[{"name": "deploy"}]))

    (section,) = [one for one in consent_sections(manifest) if one.title == "What its calls may do"]

    assert section.lines == ("says nothing about what it changes, so take it as able to change anything: deploy",)
    assert section.alarming == section.lines


def test_hosts_that_a_secret_is_for_are_read_in_both_dialects_shown_and_checked() -> None:
    api, key = parse_recipient("api.example.com:443"), parse_recipient("x-api-key@api.example.com:443")
    hosts = ["api.example.com:443", "X-Api-Key@api.example.com:443"]
    ours = sound(native(secrets=["key", "other"], secret_hosts={"key": hosts}))
    assert ours.secret_hosts == {"key": (api, key)}
    assert f"Uses the secrets key (for {api}, {key} alone, and not as a value), other" in lines_of(ours)
    auth = {"send": {"secrets": {"key": {"allowed_scope": "user", "allowed_hosts": ["api.example.com:443"]}}}}
    assert sound(shu(op_auth=auth)).secret_hosts == {"key": (api,)}
    wrong = native(secrets=["key"], secret_hosts={"key": ["*", "api.example.com"], "lost": ["api.example.com:443"]})
    assert {one.path for one in wrong.errors} == {"secret_hosts.key[0]", "secret_hosts.key[1]", "secret_hosts.lost"}


def test_a_secret_that_only_an_operation_names_is_one_of_the_plugins_secrets() -> None:
    operations = {"send": {"secrets": {"key": "system", "both": "user"}}, "read": {"secrets": {"key": "user"}}}

    assert sound(native(secrets=["both"], operation_auth=operations)).secrets == ("both", "key")
