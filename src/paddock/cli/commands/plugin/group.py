"""`paddock plugin …`: the commands of this package."""

from __future__ import annotations

from paddock.cli.command import LazyCommand, LazyGroup

_HERE = "paddock.cli.commands.plugin"

app = LazyGroup(
    "plugin",
    aliases={"info": "show", "uninstall": "remove"},
    help="Check, install, configure, run and remove plugins.",
    table={
        "new": LazyCommand(f"{_HERE}.new:new"),
        "check": LazyCommand(f"{_HERE}.check:check"),
        "sync": LazyCommand(f"{_HERE}.sync:sync"),
        "pack": LazyCommand(f"{_HERE}.pack:pack"),
        "sign": LazyCommand(f"{_HERE}.check:sign"),
        "validate": LazyCommand(f"{_HERE}.check:validate"),
        "test": LazyCommand(f"{_HERE}.test:test"),
        "install": LazyCommand(f"{_HERE}.install:install"),
        "try": LazyCommand(f"{_HERE}.trial:try_plugin"),
        "upgrade": LazyCommand(f"{_HERE}.install:upgrade"),
        "rollback": LazyCommand(f"{_HERE}.install:rollback"),
        "remove": LazyCommand(f"{_HERE}.install:remove"),
        "list": LazyCommand(f"{_HERE}.show:list_"),
        "show": LazyCommand(f"{_HERE}.show:show"),
        "logs": LazyCommand(f"{_HERE}.logs:logs"),
        "tools": LazyCommand(f"{_HERE}.tools:tools"),
        "resources": LazyCommand(f"{_HERE}.documents:resources"),
        "prompts": LazyCommand(f"{_HERE}.documents:prompts"),
        "enable": LazyCommand(f"{_HERE}.enable:enable"),
        "grant": LazyCommand(f"{_HERE}.grant:grant"),
        "disable": LazyCommand(f"{_HERE}.enable:disable"),
        "pin": LazyCommand(f"{_HERE}.enable:pin"),
        "repair": LazyCommand(f"{_HERE}.enable:repair"),
        "alias": LazyCommand(f"{_HERE}.enable:alias"),
        "trust": LazyCommand(f"{_HERE}.trust:trust"),
        "accept": LazyCommand(f"{_HERE}.accept:accept"),
        "configure": LazyCommand(f"{_HERE}.configure:configure"),
        "knob": LazyCommand(f"{_HERE}.knob:knob"),
    },
)
