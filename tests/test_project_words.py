"""One language: names that engineers of the field search for, each defined once and explained where it matters."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "paddock"
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
# Only copied into new plugins, never imported here.
TEMPLATES = SOURCE / "authoring" / "templates"
MOST_FILES_OF_A_FOLDER = 20

# The class that each room is about; a newcomer looks these up.
MAIN_CLASSES = {
    "gate": ("Gate", "Invocation", "IdempotencyRecord", "RateLimiter", "Catalogue"),
    "runtime": ("Supervisor", "PluginInstance", "ProcessRun", "PluginConnection", "ProtocolAdapter"),
    "plugins": ("PackageTree", "ConsentScreen", "InstallPlan", "PinnedDefinition", "EnvironmentStore"),
    "capabilities": ("CapabilityDispatcher", "ArtifactService"),
    "approvals": ("Approval", "StandingApproval"),
    "policy": ("Policy", "RuleSet", "Allow", "Deny", "Ask"),
    "ledger": ("LedgerWriter", "LedgerEntry", "Checkpoint"),
    "principals": ("ApiKey", "ConsoleSession", "TenantRecord"),
    "secrets": ("Vault", "WrappingKeys"),
    "queue": ("Job", "Node"),
    "webhooks": ("Webhook", "DeadLetter"),
    "store": ("Database", "Transaction", "Blobs"),
    "cage": ("CageSpec", "ZygotePool", "CageEgressProxy"),
    "rpc": ("JsonRpcPeer",),
    "net": ("EgressPolicy",),
    "config": ("Settings",),
    "manifest": ("Manifest", "CallableSpec", "Effect", "Knob"),
    "core": ("Principal", "Question"),
    "web": ("ApiRoute", "Router", "Caller"),
    "mcp_server": ("McpServer",),
    "host": ("LocalStore", "Repair"),
}


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if not path.is_relative_to(TEMPLATES)]


def classes() -> dict[str, list[str]]:
    """Every class of the package with the files that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def test_no_class_name_is_defined_twice() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}


def test_the_glossary_explains_the_main_classes_of_every_room() -> None:
    explained = set(re.findall(r"`(\w+)`", GLOSSARY.read_text(encoding="utf-8")))
    defined = classes()
    main = {name for names in MAIN_CLASSES.values() for name in names}

    assert sorted(main - explained) == []
    assert sorted(name for name in explained if name[0].isupper() and name not in defined) == []
    for room, names in MAIN_CLASSES.items():
        assert [name for name in names if not defined[name][0].startswith(f"{room}/")] == [], room


def test_every_argument_that_a_docstring_explains_is_a_parameter() -> None:
    wrong: list[str] = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                unknown = explained_arguments(node) - parameters(node)
                wrong += [f"{path.relative_to(SOURCE)}: {node.name}: {name}" for name in sorted(unknown)]

    assert wrong == []


def explained_arguments(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names in the section `Args:` of a docstring."""
    section = re.search(r"^Args:\n((?: {4}.*\n?|\n)*)", ast.get_docstring(node) or "", re.MULTILINE)
    return set(re.findall(r"^ {4}\*{0,2}(\w+):", section[1], re.MULTILINE)) if section else set()


def parameters(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters of a function, or those that build a class: of its `__init__`, or its fields."""
    if isinstance(node, ast.ClassDef):
        inits = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        fields = {
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        return parameters(inits[0]) if inits else fields
    spec = node.args
    rest = [one for one in (spec.vararg, spec.kwarg) if one is not None]
    return {one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest)}


def test_no_folder_has_more_files_than_one_concept_needs() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules():
        if path.name != "__init__.py":
            counts[str(path.parent.relative_to(SOURCE))] += 1

    assert {folder: count for folder, count in counts.items() if count > MOST_FILES_OF_A_FOLDER} == {}


def test_the_drawing_of_the_rooms_and_the_import_contract_agree() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in config["tool"]["importlinter"]["contracts"] if one["id"] == "layers")
    layers = [tuple(re.findall(r"\((\w+)\)", line)) for line in contract["layers"]]
    drawing = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1].splitlines()[1:]
    drawn = [tuple(re.split(r" {2,}", line)[0].split(" · ")) for line in drawing if line[:1].strip()]

    assert drawn == layers
