"""Texts for people: remedies are actions and no commands, and no text is written in a private language."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import paddock
from documented.command_tree import leaves
from paddock.core.action import SENTENCES, template_arguments

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(paddock.__file__).parent
PAGES = (
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((SOURCE / "console" / "templates").rglob("*.html")),
    ROOT / "sdk" / "typescript" / "README.md",
)
# What plugin authors read of the SDKs: all of the sources, comments and types too.
SDK_SOURCES = (
    *sorted((SOURCE.parent / "paddock_sdk").rglob("*.py")),
    *sorted((ROOT / "sdk" / "typescript" / "src").rglob("*.ts")),
)
# Where commands are typed or described: the command line, the demo, the descriptions of settings and the API, and what
# people read in a chat, which has neither pages nor a terminal of ours.
MAY_NAME_COMMANDS = (
    "cli/",
    "demo/",
    "authoring/template_catalog.py",
    "config/reference.py",
    "config/oidc_settings.py",
    "config/plugin_settings.py",
    "config/web_settings.py",
    "mcp_server/approval_text.py",
    "web/routing/openapi.py",
)
# Options in prose belong to the command line; these are of other programs.
MAY_NAME_OPTIONS = {
    "cage/probe.py": "docker run",
    "host/doctor/system_checks.py": "pip install --upgrade",
    "host/repairs/host_detectors.py": "systemd-run --user",
    "plugins/environments/lock.py": "the lines of pip's lock files",
}
OPTION = re.compile(r"(?:^|[\s(`'\"])--[a-z][\w-]*")
RUN_AGAIN = re.compile(r"\brun (?:the|this) command\b", re.IGNORECASE)
# Calls whose arguments are texts for people, beside the constructors of errors.
TEXT_CALLS = {
    "Problem",
    "Diagnosis",
    "HandshakeRejection",
    "Check",
    "Repair",
    "RepairButton",
    "RepairLink",
    "RepairCommand",
    "CageRefusal",
    "PermanentFailure",
    "UnusableReason",
    "error",
    "warn",
    "add_problem",
    "rule_problem",
    "invalid_param",
    "invalid_file_error",
}
NOT_TEXT = {"code", "details", "extra", "kind", "path"}
TEXT_NAME = re.compile(
    r"(hint|message|reason|why|fix|meaning|cause|advice|problem|text|summary|found)s?$", re.IGNORECASE
)
PRIVATE_WORDS = re.compile(
    r"\b(whoever|nobody|somebody|anybody|is told|are told|mends?|mended|what became|became of|these hands"
    r"|not taken here|does not print|is no token|goes by|holds what)\b",
    re.IGNORECASE,
)
WORDS_OF_NO_PAGE = re.compile(
    r"\b(who(?:m|se)?ever|nobody|somebody|anybody|everybody|(?:is|are|was|were|be|been|being|not|cannot) told"
    r"|mend(?:s|ed|ing)?|what bec[ao]mes? of|bec[ao]mes? of (?:it|them|a call)|waits for a yes)\b",
    re.IGNORECASE,
)
# Approvals are approved, denied, given, standing and removed.
WORDS_OF_NO_APPROVAL = re.compile(
    r"\b(sa(?:y|ys|id|ying) (?:yes|no)\b(?! (?:or|more|longer|network))|(?:the|its|their|a person's|made it a) yes\b"
    r"|yes that lasts|good for nothing)",
    re.IGNORECASE,
)
# Blocks and spans of code quote what programs print; what templates compute is no text.
QUOTED = re.compile(r"^( *)```.*?^\1```|`(?:[^`\n]|\n(?!\n))+`|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL | re.MULTILINE)
THE_UNIX_USER = re.compile(r"\b(user|as|is|by) nobody\b|\(nobody\)|nobody, o\+rx|as nobody, who")
# What only Paddock can do: an error that says so carries the action.
DONE_IN_PADDOCK = re.compile(
    r"\b(enable|disable|unpin|repair|roll back|uninstall|remove) (it|them|the plugin|(one|each) of them|the \w+ one)\b"
    r"|\bstart (the|a) daemon\b|\bverify the ledger\b|\bset the secret\b|\b(create|make) an? (API|signing) key\b"
    r"|\b(install|grant) (it|them|each of them|the plugin)\b|\bgrant (you )?(this|these|the) scopes?\b"
    r"|\baccept the loss\b",
    re.IGNORECASE,
)


@cache
def trees() -> dict[str, ast.Module]:
    return {
        str(file.relative_to(SOURCE)): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(SOURCE.rglob("*.py"))
    }


def documentation(tree: ast.Module) -> set[int]:
    """Docstrings, of modules, classes, functions and constants."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def text_of(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in values)
        case _:
            return None


def strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    text = text_of(node)
    if text is not None:
        yield getattr(node, "lineno", 0), text
    elif not isinstance(node, ast.Subscript):
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


@cache
def error_classes() -> frozenset[str]:
    found = {"PaddockError"}
    classes = [node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while True:
        more = {
            one.name
            for one in classes
            if any(isinstance(base, ast.Name) and base.id in found for base in one.bases) and one.name not in found
        }
        if not more:
            return frozenset(found)
        found |= more


def callee(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def texts_for_people(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of errors, problems, hints, checks and repairs, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Call() if callee(node) in error_classes() | TEXT_CALLS or callee(node).endswith("_error"):
                for argument in node.args:
                    yield from strings(argument)
                for keyword in node.keywords:
                    if keyword.arg not in NOT_TEXT:
                        yield from strings(keyword.value)
            case ast.Assign(targets=targets, value=value) if any(
                TEXT_NAME.search(getattr(part, "id", getattr(part, "attr", "")))
                for target in targets
                for part in ast.walk(target)
            ):
                yield from strings(value)
            case ast.FunctionDef(name=name) if TEXT_NAME.search(name):
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and part.value is not None:
                        yield from strings(part.value)
            case _:
                pass


def test_no_room_but_the_command_line_holds_a_command_to_type() -> None:
    roots = "|".join(sorted({words[0] for words in leaves()}))
    command = re.compile(rf"(?<![\w./:-])paddock ({roots})\b")
    assert [
        f"{file}:{node.lineno}: {node.value}"
        for file, tree in trees().items()
        if not file.startswith(MAY_NAME_COMMANDS)
        for documented in [documentation(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in documented and command.search(node.value)
    ] == []


def test_no_room_but_the_command_line_speaks_of_its_options_or_of_running_a_command() -> None:
    assert [
        f"{file}:{node.lineno}: {node.value}"
        for file, tree in trees().items()
        if not file.startswith((*MAY_NAME_COMMANDS, *MAY_NAME_OPTIONS))
        for documented in [documentation(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in documented
        if RUN_AGAIN.search(node.value) or (" " in node.value and OPTION.search(node.value))
    ] == []


def test_an_error_whose_remedy_is_in_paddock_carries_an_action() -> None:
    assert [
        f"{file}:{node.lineno}: {text}"
        for file, tree in trees().items()
        if not file.startswith(MAY_NAME_COMMANDS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and callee(node) in error_classes()
        if "action" not in (named := {one.arg: one.value for one in node.keywords}) and "hint" in named
        for _, text in strings(named["hint"])
        if DONE_IN_PADDOCK.search(text)
    ] == []


def test_every_action_is_built_with_the_arguments_of_its_kind() -> None:
    wrong: list[str] = []
    for file, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="Action"), attr="of"), args=[ast.Constant(value=str(kind))]
                ):
                    declared = template_arguments(SENTENCES[kind])  # pyright: ignore[reportArgumentType]
                    given = {one.arg for one in node.keywords}
                    missing = {name for name, needed in declared.items() if needed} - given
                    if missing or given - declared.keys() - {None}:
                        wrong.append(f"{file}:{node.lineno}: {kind} {missing or given}")
                case _:
                    pass
    assert wrong == []


def test_no_text_for_people_uses_the_words_of_a_private_language() -> None:
    assert [
        f"{file}:{line}: {text}"
        for file, tree in trees().items()
        if file != "policy/schema.py"  # a text for Cedar
        for line, text in texts_for_people(tree)
        if PRIVATE_WORDS.search(THE_UNIX_USER.sub("", text))
    ] == []


def test_no_page_uses_the_words_of_a_private_language() -> None:
    assert len(PAGES) > 100, "the pages are found"
    assert [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()}"
        for page in PAGES
        for text in [QUOTED.sub(lambda quoted: "\n" * quoted[0].count("\n"), page.read_text(encoding="utf-8"))]
        for number, line in enumerate(text.splitlines(), 1)
        if WORDS_OF_NO_PAGE.search(line) or WORDS_OF_NO_APPROVAL.search(line)
    ] == []


def test_the_sdks_for_plugin_authors_use_no_words_of_a_private_language() -> None:
    assert {source.suffix for source in SDK_SOURCES} == {".py", ".ts"}
    private = re.compile(rf"{WORDS_OF_NO_PAGE.pattern}|{PRIVATE_WORDS.pattern}|\btold\b", re.IGNORECASE)
    assert [
        f"{source.relative_to(SOURCE.parents[1])}:{number}: {line.strip()}"
        for source in SDK_SOURCES
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1)
        if private.search(line)
    ] == []


def test_no_text_of_the_program_calls_an_approval_a_yes() -> None:
    assert [
        f"{file}:{node.lineno}: {node.value}"
        for file, tree in trees().items()
        for documented in [documentation(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in documented and WORDS_OF_NO_APPROVAL.search(node.value)
    ] == []


def test_templates_name_their_values_plainly() -> None:
    templates = sorted((SOURCE / "console" / "templates").rglob("*.html"))
    computed = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
    assert templates
    assert [
        f"{template.name}: {part[0]}"
        for template in templates
        for part in computed.finditer(template.read_text(encoding="utf-8"))
        if re.search(r"\b(told|nobody|whoever|somebody)\b", part[0])
    ] == []
