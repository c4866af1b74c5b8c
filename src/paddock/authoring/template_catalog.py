"""The templates of `paddock plugin new`: languages per kind, and the commands to run next."""

from __future__ import annotations

import shlex
import sys

from msgspec import Struct

from paddock.core.errors import CallerError, Problem

KINDS = ("plugin", "tool", "operator", "agent", "adapter", "shu", "mcp")
LANGUAGES = ("python", "typescript", "shell")
_PYTHON = "python3"


class PluginTemplate(Struct, frozen=True):
    """The template of one kind in one language.

    Attributes:
        test_command: Runs the included tests, in the plugin's folder.
        bundled_files: Files copied into it from elsewhere; see `scaffold.find_bundled_file`.
        test_flags: Flags that `paddock plugin test` needs to call it.
        strict_name: Whether its manifest only allows slugs as names.
    """

    kind: str
    language: str
    test_command: tuple[str, ...] = (_PYTHON, "-m", "unittest")
    bundled_files: tuple[str, ...] = ()
    test_flags: tuple[str, ...] = ()
    strict_name: bool = False

    @property
    def folder(self) -> str:
        """The template's folder below `templates/`."""
        return f"{self.kind}-{self.language}"

    def next_commands(self, folder: str) -> tuple[str, ...]:
        """Return the commands for an author to run next.

        Python tests run with this process's interpreter: any other lacks the SDK.
        """
        path = shlex.quote(folder)
        tests = shlex.join(sys.executable if word == _PYTHON else word for word in self.test_command)
        return (
            f"paddock plugin check {path}",
            " ".join(["paddock plugin test", path, *self.test_flags]),
            f"(cd {path} && {tests})",
            f"paddock dev {path}",
        )


TEMPLATES = (
    PluginTemplate("plugin", "python"),
    PluginTemplate("plugin", "typescript", ("node", "--test", "test_plugin.mjs"), ("paddock-sdk",)),
    PluginTemplate("plugin", "shell", ("bash", "test_plugin.sh"), ("rpc.sh",), strict_name=True),
    PluginTemplate("tool", "python"),
    PluginTemplate("operator", "python", test_flags=("--effects",)),
    PluginTemplate("agent", "python"),
    PluginTemplate("adapter", "python"),
    PluginTemplate("shu", "python"),
    PluginTemplate("mcp", "python"),
)


def find_template(kind: str, language: str) -> PluginTemplate:
    """Return the template.

    Raises:
        CallerError: there is none; the hint lists those that exist.
    """
    template = _template(kind, language)
    if isinstance(template, PluginTemplate):
        return template
    raise CallerError(template.message, code=template.code, hint=template.hint)


def template_problems(kind: str, language: str) -> list[Problem]:
    """Return what is wrong with a kind and a language; nothing if there is a template."""
    template = _template(kind, language)
    if isinstance(template, PluginTemplate):
        return []
    problems = [template]
    if template.path == "--kind" and language not in LANGUAGES:
        hint = f"one of {', '.join(LANGUAGES)}"
        problems.append(Problem("--lang", f"there are no templates in {language!r}", hint, "new.no_template"))
    return problems


def _template(kind: str, language: str) -> PluginTemplate | Problem:
    for template in TEMPLATES:
        if (template.kind, template.language) == (kind, language):
            return template
    if kind not in KINDS:
        return Problem("--kind", f"{kind!r} is no kind of plugin", f"one of {', '.join(KINDS)}", "new.unknown_kind")
    languages = ", ".join(template.language for template in TEMPLATES if template.kind == kind)
    kinds = ", ".join(template.kind for template in TEMPLATES if template.language == language)
    alternatives = f"; in {language} there is: {kinds}" if kinds else f"; languages: {', '.join(LANGUAGES)}"
    return Problem(
        "--lang",
        f"there is no template of the kind {kind} in {language}",
        f"{kind} is there in: {languages}{alternatives}",
        "new.no_template",
    )
