"""What `paddock plugin new` can make: for each kind of plugin the languages, and what to type next. A table."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass

from paddock.core.errors import CallerError

KINDS = ("plugin", "tool", "operator", "agent", "adapter", "shu", "mcp")
LANGUAGES = ("python", "typescript", "shell")
_PYTHON = "python3"


@dataclass(frozen=True, slots=True)
class PluginTemplate:
    """One kind in one language.

    Attributes:
        own_tests: What runs the tests that come with it, in its folder.
        borrows: What is copied into it from elsewhere; see `borrowed.py`.
        test_flags: What `paddock plugin test` needs to call it.
        strict_name: Whether its document allows only slugs as names.
    """

    kind: str
    language: str
    test_command: tuple[str, ...] = (_PYTHON, "-m", "unittest")
    bundled_files: tuple[str, ...] = ()
    test_flags: tuple[str, ...] = ()
    strict_name: bool = False

    @property
    def folder(self) -> str:
        """Below `templates/`."""
        return f"{self.kind}-{self.language}"

    def next_commands(self, folder: str, python: str = sys.executable) -> tuple[str, ...]:
        """What an author types next. Tests in Python are run by the one that we run in: any other lacks the SDK."""
        place = shlex.quote(folder)
        tests = shlex.join(python if word == _PYTHON else word for word in self.test_command)
        return (
            f"paddock plugin check {place}",
            " ".join(["paddock plugin test", place, *self.test_flags]),
            f"(cd {place} && {tests})",
            f"paddock dev {place}",
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
    """The template.

    Raises:
        CallerError: there is none; the hint names those that there are.
    """
    for one in TEMPLATES:
        if (one.kind, one.language) == (kind, language):
            return one
    if kind not in KINDS:
        raise CallerError(f"{kind!r} is no kind of plugin", code="new.unknown_kind", hint=f"one of {', '.join(KINDS)}")
    known = ", ".join(one.language for one in TEMPLATES if one.kind == kind)
    kinds = ", ".join(one.kind for one in TEMPLATES if one.language == language)
    also = f"; in {language} there is: {kinds}" if kinds else f"; languages: {', '.join(LANGUAGES)}"
    raise CallerError(
        f"there is no template of the kind {kind} in {language}",
        code="new.no_template",
        hint=f"{kind} is there in: {known}{also}",
    )
