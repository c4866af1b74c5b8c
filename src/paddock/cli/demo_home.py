"""The demo's home: temporary, with the example plugins, Robin and one rule in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.core.errors import Invalid, NotFound
from paddock.core.secret import Secret

LEFT_OUT: Final = "greeter"
"""The example that the visitor installs."""

_RULES: Final = Path(__file__).with_name("demo.cedar")


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin in the demo's home."""

    name: str
    version: str
    dialect: str
    enabled: bool

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "dialect": self.dialect, "enabled": self.enabled}


@contextmanager
def temporary_home() -> Generator[Path, None, None]:
    """A home for this process and those it starts, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="paddock-demo-") as folder:
        for name in [name for name in os.environ if name.startswith("PADDOCK_")]:
            del os.environ[name]
        os.environ["PADDOCK_HOME"] = folder
        policies = Path(folder) / "policies"
        policies.mkdir()
        shutil.copyfile(_RULES, policies / "demo.cedar")
        yield Path(folder)


def furnish(home: Path) -> tuple[list[Installed], Secret]:
    """Install the examples, enable those that can run here, and add Robin; what was installed, and Robin's key.

    Raises:
        NotFound: the examples are not here.
    """
    from paddock.cli.demo_robin import NAME
    from paddock.cli.opening import at_this_machine
    from paddock.core.clock import SystemRandom
    from paddock.host.command import open_for_command
    from paddock.plugins.enabling import enable
    from paddock.plugins.examples import example_plugins
    from paddock.plugins.install import commit
    from paddock.plugins.preparing import prepare
    from paddock.plugins.sources import parse_source
    from paddock.principals.api_keys import create_key
    from paddock.principals.people import add_person

    directories = [place for place in example_plugins() if place.name != LEFT_OUT]
    if not directories:
        raise NotFound(
            "the example plugins are not here", code="demo.no_examples", hint="run it from a checkout: ./run demo"
        )
    installed: list[Installed] = []
    with open_for_command(os.environ, home) as host:
        store = host.plugins.used_by(at_this_machine())
        for directory in directories:
            with prepare(store, parse_source(str(directory))) as prepared:
                row = commit(store, prepared, prepared.to_acknowledge)
            try:
                enable(store, row.plugin)
                enabled = True
            except Invalid:  # a program that it needs is not on this machine
                enabled = False
            installed.append(Installed(row.plugin, row.version, row.dialect, enabled))

        random = SystemRandom()
        scopes = ("notes:write",)
        store.database.write(lambda tx: add_person(store.change(tx), NAME, display_name="Robin", scopes=scopes))
        _, token = store.database.write(
            lambda tx: create_key(store.change(tx), NAME, random, label="Robin's assistant", scopes=scopes)
        )
    return installed, token


def offer_more(plugin: str) -> None:
    """Configure the example server as `paddock plugin configure` does: it offers more from its next start on."""
    from paddock.cli.opening import reading
    from paddock.host.plugin_values import change

    with reading() as host:
        change(host.plugins, plugin, {"more_units": True}, [], None)
