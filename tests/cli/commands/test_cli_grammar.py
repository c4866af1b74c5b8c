"""One grammar for all commands: singular nouns, `add`, `list`, `show` and `remove`, and help in plain words."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from documented.command_tree import commands, leaves
from fixtures.all_cases import all_cases
from fixtures.commands import Paddock
from fixtures.packages import kernel
from paddock.cli.command import LazyGroup, PaddockCommand
from paddock.cli.main import COMMANDS

LEAVES = leaves()
GROUPS = {words: command for words, command in commands() if isinstance(command, click.Group)}

NOUNS = {
    *(
        "apikey",
        "approval",
        "artifact",
        "call",
        "config",
        "consent",
        "group",
        "inbox",
        "key",
        "ledger",
        "plugin",
        "policy",
    ),
    *("secret", "tenant", "user", "webhook"),
    # what belongs to one of these
    *("dead-letter", "file", "identity", "member", "role", "scope", "session", "standing", "unresolved"),
}
FOR_WHAT_IS_KEPT = {"add", "list", "show", "remove"}
VERBS = {
    *("accept", "alias", "answer", "approve", "cancel", "check", "configure", "deny", "disable", "enable", "erase"),
    *(
        "export",
        "follow",
        "get",
        "grant",
        "install",
        "new",
        "pack",
        "pin",
        "rename",
        "repair",
        "resolve",
        "retry",
        "rollback",
        "rotate",
        "set",
    ),
    *("sign", "sync", "tail", "test", "trust", "try", "upgrade", "validate", "verify"),
}
PARTS_OF_A_PLUGIN = {"knob", "logs", "prompts", "resources", "tools"}
WITHOUT_A_NOUN = {
    *("backup", "call", "demo", "dev", "doctor", "explain", "import", "login", "mcp", "restore", "serve"),
}
KEPT = {"apikey", "consent", "group", "key", "tenant", "user", "webhook"}
# The commands that others rely on. A noun has what stands behind it; without any it is a command by itself.
NAMED_COMMANDS = {
    **dict.fromkeys(("demo", "serve", "doctor", "mcp", "login", "backup", "restore", "dev", "import", "explain"), ""),
    "plugin": "check install try list show enable disable upgrade rollback pin grant knob configure logs tools"
    " resources prompts alias sign test new sync pack accept repair remove info uninstall",
    "call": "list show follow answer cancel",
    "call unresolved": "list show resolve",
    "artifact": "show get",
    "approval": "list show approve deny",
    "approval standing": "list remove",
    "ledger": "tail show verify export erase",
    "secret": "set rotate list show remove",
    "key": "add list show remove trust",
    **dict.fromkeys(("tenant", "user", "group", "apikey", "consent", "webhook"), "add list show remove"),
    "policy": "check test show try",
    "config": "show",
}
# Of rooms to come: no other command may take these words.
RESERVED_COMMANDS = {
    *("account", "chat", "feed", "kb", "node", "persona", "plan", "profile", "project", "run", "session", "submit"),
}
PRIVATE_LANGUAGE = re.compile(
    r"\b(anybody|everybody|nobody|somebody|whoever|whom|told|the record|big bytes|say yes|says? no|what it says)\b",
    re.IGNORECASE,
)


def help_texts(command: click.Command) -> list[str]:
    parameters = [parameter.help or "" for parameter in command.params]
    return [command.help or "", command.epilog or "", *parameters]


@all_cases("words", sorted(LEAVES), ids=" ".join)
def test_a_command_has_json_help_for_each_parameter_and_examples_that_stay_on_one_line(words: tuple[str, ...]) -> None:
    command = LEAVES[words]
    assert "--json" in {option for parameter in command.params for option in parameter.opts}
    assert command.help
    assert [parameter.name for parameter in command.params if not parameter.help] == []
    assert command.examples
    assert all(example.startswith(" ".join(("paddock", *words))) for example in command.examples)
    shown = command.get_help(click.Context(command, info_name=" ".join(("paddock", *words)), terminal_width=60))
    assert all(f"\n  {example}\n" in f"{shown}\n" for example in command.examples)


@all_cases("words", sorted({*LEAVES, *GROUPS}), ids=" ".join)
def test_help_is_written_in_plain_words(words: tuple[str, ...]) -> None:
    texts = [text for tree in (GROUPS, LEAVES) if words in tree for text in help_texts(tree[words])]
    if words[0] in COMMANDS:
        texts.append(COMMANDS[words[0]].summary)
    assert [text for text in texts if PRIVATE_LANGUAGE.search(text)] == []


def test_groups_are_singular_nouns_and_their_commands_verbs() -> None:
    assert {words[-1] for words in GROUPS} == NOUNS
    for *nouns, verb in LEAVES:
        allowed = FOR_WHAT_IS_KEPT | VERBS if nouns else WITHOUT_A_NOUN
        allowed |= PARTS_OF_A_PLUGIN if nouns == ["plugin"] else set()
        assert verb in allowed, (nouns, verb)


def test_every_command_that_others_rely_on_exists_and_reserved_words_are_free() -> None:
    for group, verbs in NAMED_COMMANDS.items():
        words = tuple(group.split())
        found = GROUPS.get(words) or LEAVES.get(words)
        assert found is not None, group
        for verb in verbs.split():
            assert isinstance(found, click.Group), group
            assert found.get_command(click.Context(found), verb) is not None, (group, verb)
    assert RESERVED_COMMANDS.isdisjoint(COMMANDS)


def test_what_is_kept_is_added_listed_shown_and_removed() -> None:
    for noun in KEPT:
        assert {words[1] for words in LEAVES if words[0] == noun and len(words) == 2} >= FOR_WHAT_IS_KEPT, noun
    assert {words[1] for words in LEAVES if words[0] == "secret"} == {"set", "list", "show", "remove", "rotate"}
    for words in LEAVES:
        if words[-1] == "add":
            assert (*words[:-1], "remove") in LEAVES, words


def test_only_two_commands_have_a_second_name() -> None:
    plugin = GROUPS["plugin",]
    assert isinstance(plugin, LazyGroup)
    context = click.Context(plugin)
    assert plugin.get_command(context, "info") is plugin.get_command(context, "show")
    assert plugin.get_command(context, "uninstall") is plugin.get_command(context, "remove")
    assert {
        words: group.aliases for words, group in GROUPS.items() if isinstance(group, LazyGroup) and group.aliases
    } == {("plugin",): {"info": "show", "uninstall": "remove"}}


@pytest.mark.parametrize(
    "words", ["calls list", "approvals list", "run doubt list", "apikey create ann", "secret rm x", "plugin knobs x"]
)
def test_old_spellings_are_not_kept(paddock: Paddock, words: str) -> None:
    assert "there is no command" in paddock.quickly(*words.split(), code=2).err


def test_a_word_after_call_that_is_no_command_is_the_name_of_a_callable(paddock: Paddock, source: Path) -> None:
    assert paddock.quickly("call", "no.such", "--json", code=3).error["code"] == "callable.not_found"
    assert paddock.quickly("call", "--json", "--params", "{}", "lst", code=3).error["code"] == "callable.not_found"
    assert paddock.quickly("call", "list", "--json", code=1).error["code"] == "daemon.not_running"
    assert "missing argument 'NAME'" in paddock.quickly("call", "--params", "{}", code=2).err
    paddock.quickly("plugin", "install", kernel(source / "list", "list"), "--yes")
    named_like_a_command = paddock.quickly("call", "list.list", "--json", code=3).error
    assert named_like_a_command["code"] == "plugin.not_enabled"


def test_the_help_of_call_shows_both_the_options_of_a_call_and_the_commands(paddock: Paddock) -> None:
    shown = paddock.quickly("call", "--help").out
    assert "paddock call [OPTIONS] NAME" in shown
    assert "paddock call COMMAND [ARGS]..." in shown
    assert "--idempotency-key" in shown
    assert "\n  unresolved " in shown
    assert paddock.quickly("call", code=2).out == shown
    assert "--idempotency-key" in paddock.quickly("call", "notes.add", "--help").out
    assert "--idempotency-key" not in paddock.quickly("call", "list", "--help").out


def test_a_leaf_is_one_of_ours_so_that_its_errors_are_reported() -> None:
    strays = [words for words, command in commands() if not isinstance(command, PaddockCommand | click.Group)]
    assert strays == []
