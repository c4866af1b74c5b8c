"""Creation of a new plugin's folder from a template."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from paddock.authoring.template_catalog import PluginTemplate, find_template, template_problems
from paddock.core.action import Action
from paddock.core.errors import CallerError, Conflict, Invalid, NotFound, OperatorError, Problem
from paddock.manifest.names import kaged_name_problem, plugin_name_problem, slug

TEMPLATES_DIR = Path(__file__).parent / "templates"

# Module names that a package of the plugin would shadow.
_RESERVED_MODULE_NAMES = frozenset(
    {*sys.stdlib_module_names, "paddock", "paddock_sdk", "shu", "vendor", "main", "server", "tests"}
)

# Name in a template → path inside an installed Paddock, and in a checkout.
_BUNDLED_PATHS = {
    "paddock-sdk": ("bundled_sdks/typescript", "examples/typescript-dice/paddock-sdk"),
    "rpc.sh": ("bundled_sdks/shell/rpc.sh", "examples/shell-status/rpc.sh"),
}


def find_bundled_file(name: str) -> Path:
    """Return the path of a bundled file: inside the package when installed, beside the source in a checkout.

    Raises:
        NotFound: this installation does not include it.
    """
    package = Path(__file__).parent
    packaged, in_checkout = _BUNDLED_PATHS[name]
    for path in (package / packaged, package.parents[2] / in_checkout):
        if path.exists():
            return path
    raise NotFound(
        f"this Paddock came without {name}", code="new.not_borrowed", hint="install the wheel again, or use a checkout"
    )


def create_plugin_folder(template: PluginTemplate, name: str, folder: Path) -> tuple[str, ...]:
    """Create the folder and return the names of its files.

    A name consists of letters, digits, dots, dashes and underscores: it has no special meaning in any of the languages
    that it is inserted into.

    Raises:
        CallerError: the name is invalid for a plugin of this kind.
        Conflict: the folder is not empty.
        OperatorError: the folder cannot be created.
    """
    if problem := _name_problem(template, name):
        raise CallerError(f"the name {problem[0]}", code="new.bad_name", hint=problem[1])
    if _is_taken(folder):
        raise Conflict(
            f"{folder} already exists, and nothing in it was changed",
            code="new.exists",
            hint="choose another folder",
            action=Action.of("plugin.new"),
        )
    placeholders = {"__NAME__": name, "__MODULE__": module_name(name), "__SLUG__": slug(name)}
    try:
        for source, path in _template_files(template):
            target = folder / substitute_placeholders(path, placeholders)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(
                substitute_placeholders(source.read_text(encoding="utf-8"), placeholders), encoding="utf-8"
            )
        for bundled in template.bundled_files:
            source_path = find_bundled_file(bundled)
            (shutil.copytree if source_path.is_dir() else shutil.copyfile)(source_path, folder / bundled)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be made: {error.strerror or error}", code="new.unwritable", hint="name another folder"
        ) from error
    return tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()))


def check_arguments(kind: str, language: str, name: str, folder: Path) -> None:
    """Check everything that a person typed for a new plugin.

    Raises:
        Invalid: there are several mistakes; carries all of them. A single one has an error of its own, from
            `find_template` or `create_plugin_folder`.
    """
    problems = template_problems(kind, language)
    template = None if problems else find_template(kind, language)
    if wrong := _name_problem(template, name):
        problems.append(Problem("NAME", *wrong, code="new.bad_name"))
    if _is_taken(folder):
        problems.append(Problem("DIR", f"{folder} already exists", "choose another folder", "new.exists"))
    if len(problems) > 1:
        raise Invalid(f"there are {len(problems)} mistakes in what was typed", problems, code="new.mistakes")


def _name_problem(template: PluginTemplate | None, name: str) -> tuple[str, str] | None:
    return (kaged_name_problem if template and template.strict_name else plugin_name_problem)(name)


def _is_taken(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def substitute_placeholders(text: str, placeholders: dict[str, str]) -> str:
    """Replace the placeholders in a single pass: inserted text is not substituted again."""
    return re.sub("|".join(map(re.escape, placeholders)), lambda match: placeholders[match[0]], text)


def module_name(name: str) -> str:
    """Return the Python package name for a plugin's name: `Letter.Answer` → `letter_answer`."""
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    module = re.sub(r"[^a-z0-9]+", "_", snake_case.lower()).strip("_")
    return f"{module}_plugin" if module in _RESERVED_MODULE_NAMES or keyword.iskeyword(module) else module


def _template_files(template: PluginTemplate) -> Iterator[tuple[Path, str]]:
    root = TEMPLATES_DIR / template.folder
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, str(path.relative_to(root))
