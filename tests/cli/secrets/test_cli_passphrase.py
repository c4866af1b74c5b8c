"""The passphrase of the keys for secrets: typed at a terminal once a key is needed, or known to the daemon."""

from __future__ import annotations

from pathlib import Path

from fixtures.commands import INTERRUPT, Paddock
from fixtures.daemons import daemon

PROMPT = "(not shown): "
HOOK = ("webhook", "add", "https://93.184.215.14/hook")


def by_passphrase(paddock: Paddock, **more: str) -> Paddock:
    return Paddock(paddock.home, more={"PADDOCK_SECRETS_KEY": "passphrase", **more})


def test_a_host_in_the_process_of_a_command_asks_for_the_passphrase_that_a_key_needs(paddock: Paddock) -> None:
    knowing = by_passphrase(paddock)
    made = knowing.on_terminal(*HOOK, "--label", "one", answers=["correct horse", "correct horse"], prompt=PROMPT)
    hook = knowing.quickly("webhook", "list", "--json").json["webhooks"][0]["id"]
    again = knowing.on_terminal("webhook", "rotate", hook, answers=["correct horse"], prompt=PROMPT)
    wrong = knowing.on_terminal("webhook", "rotate", hook, answers=["wrong horse"], prompt=PROMPT, code=6)

    assert made.count(PROMPT) == 2 and "new passphrase for secrets" in made
    assert again.count(PROMPT) == 1 and "has another secret" in again
    assert "the passphrase is not the one that secrets are sealed under" in wrong
    assert "horse" not in made + again + wrong
    assert PROMPT not in knowing.on_terminal("webhook", "show", hook), "no key is needed for that"


def test_an_interrupted_passphrase_ends_the_command_and_changes_nothing(paddock: Paddock) -> None:
    knowing = by_passphrase(paddock)
    knowing.on_terminal(*HOOK, answers=[INTERRUPT], prompt=PROMPT, code=130)
    assert knowing.quickly("webhook", "list", "--json").json["webhooks"] == []


def test_without_a_terminal_nobody_is_asked(paddock: Paddock) -> None:
    refused = by_passphrase(paddock)(*HOOK, "--json", code=6).error
    assert refused["code"] == "secret.key"
    assert refused["hint"] == "set secrets.passphrase_file; without a daemon, it can be typed at a terminal"


def test_a_daemon_that_knows_the_passphrase_is_not_told_it_again(paddock: Paddock, tmp_path: Path) -> None:
    (tmp_path / "phrase").write_text("correct horse\n")
    (tmp_path / "phrase").chmod(0o600)
    with daemon(by_passphrase(paddock, PADDOCK_SECRETS_PASSPHRASE_FILE=str(tmp_path / "phrase"))):
        made = paddock.on_terminal(*HOOK, prompt=PROMPT)
        typed = paddock.on_terminal("secret", "set", "api_key", answers=["hunter2"], prompt=PROMPT)
        rotated = paddock.on_terminal("secret", "rotate", "--yes", prompt=PROMPT)
    assert PROMPT not in made + rotated
    assert typed.count(PROMPT) == 1 and "hunter2" not in typed
    assert "2 secrets are encrypted with the key" in rotated, "of the webhook, and the one that was typed"
