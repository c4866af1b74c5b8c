"""The configuration that the host passes to a worker: which code to run, and in which dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

CONFIG_VARIABLE = "PADDOCK_WORKER"


class WorkerConfig(NamedTuple):
    """The plugin that a worker runs.

    Attributes:
        name: The plugin, as in its manifest.
        version: As in its manifest.
        dialect: `shu`, `kernel`, or any other, whose entry points are native functions.
        kind: `plugin`, or in the Kernel dialect `agent`, `operator`, `tool` or `adapter`.
        root: The directory of its files.
        entrypoints: Callable name -> `package.module:Attribute`.
        capabilities: The granted capabilities, as texts.
        site: Further directories to import from: the plugin's own environment, if it has one.
        environment: Variables for its code, where they are not set already.
    """

    name: str
    version: str
    dialect: str
    kind: str
    root: str
    entrypoints: dict[str, str]
    capabilities: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


def read_worker_config(text: str) -> WorkerConfig:
    """Parse the configuration from the text of the variable.

    Raises:
        ValueError: it is not what the host writes.
    """
    value = json.loads(text)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    arguments = {name: fields[name] for name in WorkerConfig._fields if name in fields}
    for name in ("capabilities", "site"):
        arguments[name] = tuple(arguments.get(name, ()))
    try:
        return WorkerConfig(**arguments)
    except TypeError as error:
        raise ValueError(f"the orders are incomplete: {error}") from None
