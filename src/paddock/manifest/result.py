"""The result of reading one manifest file: its plugins, and all problems."""

from __future__ import annotations

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Invalid, Problem
from paddock.manifest.dialects.mcp_user_config import ImportedServer
from paddock.manifest.model import Manifest


class ManifestResult(Struct, frozen=True):
    """The plugins of one manifest file, with all errors and warnings."""

    file: str
    form: str  # the schema it was read by, e.g. "kaged" or "mcp-servers"
    plugins: tuple[ImportedServer, ...]
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        return not self.errors

    def all(self) -> tuple[ImportedServer, ...]:
        """Return every plugin of the file.

        Raises:
            Invalid: the file has mistakes; carries all of them.
        """
        if self.errors:
            count = len(self.errors)
            raise Invalid(
                f"{self.file} has {count} mistake{'s' if count != 1 else ''}",
                self.errors,
                code="manifest.invalid",
                hint="correct the mistakes, then check it again",
                action=Action.of("plugin.check"),
            )
        return self.plugins

    def single(self) -> Manifest:
        """Return the only plugin of the file.

        Raises:
            Invalid: the file has mistakes, or holds several plugins.
        """
        plugins = self.all()
        if len(plugins) != 1:
            names = ", ".join(plugin.manifest.name for plugin in plugins)
            raise Invalid(
                f"{self.file} contains {len(plugins)} plugins ({names})",
                [
                    Problem(
                        "",
                        "contains several servers",
                        code="several_plugins",
                        action=Action.of("plugin.import", file=self.file),
                    )
                ],
                code="manifest.several",
            )
        return plugins[0].manifest
