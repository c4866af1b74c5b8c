"""The demo's temporary home, with the example plugins, Robin and one rule."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from paddock.core.errors import Invalid, NotFound
from paddock.core.secret import Secret

EXCLUDED_EXAMPLE: Final = "greeter"
"""The example that is left for the visitor to install."""

_POLICY_FILE: Final = Path(__file__).with_name("demo.cedar")


class DemoPlugin(Struct, frozen=True):
    """A plugin in the demo's home."""

    name: str
    version: str
    dialect: str
    enabled: bool

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "dialect": self.dialect, "enabled": self.enabled}


@contextmanager
def temporary_home() -> Generator[Path, None, None]:
    """Create a temporary home for this process and its children, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="paddock-demo-") as folder:
        for name in [name for name in os.environ if name.startswith("PADDOCK_")]:
            del os.environ[name]
        os.environ["PADDOCK_HOME"] = folder
        policies = Path(folder) / "policies"
        policies.mkdir()
        shutil.copyfile(_POLICY_FILE, policies / "demo.cedar")
        yield Path(folder)


def populate_home(home: Path) -> tuple[list[DemoPlugin], Secret]:
    """Install the examples, enable those that can run here, and add Robin; return the plugins and Robin's API key.

    Raises:
        NotFound: the examples are missing.
    """
    from paddock.cli.client.local_store import local_principal
    from paddock.core.clock import SystemRandom
    from paddock.demo.simulated_user import SIMULATED_USER_NAME
    from paddock.host.wiring.local_store import open_local_store
    from paddock.plugins.examples import example_plugins
    from paddock.plugins.install.commit import commit_install
    from paddock.plugins.install.consent import full_consent
    from paddock.plugins.install.resolve import resolve_package
    from paddock.plugins.manage.enable import enable
    from paddock.plugins.package.source import parse_source
    from paddock.principals.api_keys import create_key
    from paddock.principals.people import add_person

    directories = [directory for directory in example_plugins() if directory.name != EXCLUDED_EXAMPLE]
    if not directories:
        raise NotFound(
            "the example plugins are not here", code="demo.no_examples", hint="run it from a checkout: ./run demo"
        )
    installed: list[DemoPlugin] = []
    with open_local_store(os.environ, home) as host:
        store = host.plugins.acting_as(local_principal())
        for directory in directories:
            with resolve_package(store, parse_source(str(directory))) as package:
                row = commit_install(store, package, full_consent(package))
            try:
                enable(store, row.plugin)
                enabled = True
            except Invalid:  # a program that it needs is missing on this machine
                enabled = False
            installed.append(DemoPlugin(row.plugin, row.version, row.dialect, enabled))

        random = SystemRandom()
        scopes = ("notes:write",)
        store.database.write(
            lambda tx: add_person(store.audited_change(tx), SIMULATED_USER_NAME, display_name="Robin", scopes=scopes)
        )
        _, token = store.database.write(
            lambda tx: create_key(
                store.audited_change(tx), SIMULATED_USER_NAME, random, label="Robin's assistant", scopes=scopes
            )
        )
    return installed, token


def change_example_server(plugin: str) -> None:
    """Configure the example server to offer more from its next start on, as `paddock plugin configure` does."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.host.plugins.configuration.config import write_configuration

    with open_for_read() as host:
        write_configuration(host.plugins, plugin, {"more_units": True}, [], None)
