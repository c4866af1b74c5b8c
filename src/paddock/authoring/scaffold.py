"""Making the folder of a new plugin from a template."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from paddock.authoring.template_catalog import PluginTemplate
from paddock.core.errors import CallerError, Conflict, NotFound, OperatorError
from paddock.manifest.names import kaged_name_problem, plugin_name_problem, slug

# By what they are called in a template: where they lie inside an installed Paddock, and in a checkout.
_BUNDLED_PATHS = {
    "paddock-sdk": ("borrowed/typescript", "sdk/typescript/dist"),
    "rpc.sh": ("borrowed/shell/rpc.sh", "examples/shell-status/rpc.sh"),
}


def find_bundled_file(name: str) -> Path:
    """Where it is: inside the package when installed, beside the source in a checkout.

    Raises:
        NotFound: this Paddock came without it.
    """
    room = Path(__file__).parent
    packaged, beside = _BUNDLED_PATHS[name]
    for place in (room / packaged, room.parents[2] / beside):
        if place.exists():
            return place
    raise NotFound(
        f"this Paddock came without {name}", code="new.not_borrowed", hint="install the wheel again, or use a checkout"
    )


TEMPLATES_DIR = Path(__file__).parent / "templates"

# Names of modules that a package of the plugin would hide from itself.
_RESERVED_MODULE_NAMES = frozenset(
    {*sys.stdlib_module_names, "paddock", "paddock_sdk", "shu", "vendor", "main", "server", "tests"}
)


def create_plugin_folder(template: PluginTemplate, name: str, folder: Path) -> tuple[str, ...]:
    """Make the folder, and name the files in it.

    A name is letters, digits, dots, dashes and underscores: nothing in any of the languages that it is put into means
    more than a name.

    Raises:
        CallerError: a plugin of this kind cannot be called that.
        Conflict: something is there already.
        OperatorError: the folder cannot be made.
    """
    fault = (kaged_name_problem if template.strict_name else plugin_name_problem)(name)
    if fault is not None:
        raise CallerError(f"the name {fault[0]}", code="new.bad_name", hint=fault[1])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(
            f"{folder} is there already, and nothing in it was touched",
            code="new.exists",
            hint="name another folder: paddock plugin new NAME DIR",
        )
    words = {"__NAME__": name, "__MODULE__": module_name(name), "__SLUG__": slug(name)}
    try:
        for source, path in _template_files(template):
            target = folder / substitute_placeholders(path, words)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(substitute_placeholders(source.read_text(encoding="utf-8"), words), encoding="utf-8")
        for lent in template.bundled_files:
            place = find_bundled_file(lent)
            (shutil.copytree if place.is_dir() else shutil.copyfile)(place, folder / lent)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be made: {error.strerror or error}", code="new.unwritable", hint="name another folder"
        ) from error
    return tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()))


def substitute_placeholders(text: str, words: dict[str, str]) -> str:
    """The text with our own words replaced, each once: what is put in is not looked at again."""
    return re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], text)


def module_name(name: str) -> str:
    """A plugin's name as the name of its package: `Letter.Answer` → `letter_answer`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    module = re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")
    return f"{module}_plugin" if module in _RESERVED_MODULE_NAMES or keyword.iskeyword(module) else module


def _template_files(template: PluginTemplate) -> Iterator[tuple[Path, str]]:
    root = TEMPLATES_DIR / template.folder
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, str(path.relative_to(root))
