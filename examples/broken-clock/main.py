"""A clock with a weak spring. Once it is broken, every start fails: a plugin that keeps falling is given up."""

from __future__ import annotations

import os
import sys
import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock_sdk import Context, InvalidParams, JsonObject, Plugin

ZONES = {"london": 0, "nairobi": 3, "tokyo": 9}  # hours from Greenwich, in winter
TOO_MANY = 10

plugin = Plugin("broken-clock", "1.0.0", capabilities_used=["read:fs:config:/clock", "write:fs:config:/clock"])


@plugin.on_config
def look_inside(config: JsonObject) -> None:
    if _spring(config).exists():
        sys.exit("the spring is broken")


@plugin.tool
def time(params: JsonObject, _context: Context) -> JsonObject:
    hours = ZONES.get(str(params.get("city", "")).casefold())
    if hours is None:
        raise LookupError(f"no hand points to {params.get('city')}")
    return {"time": clock.strftime("%H:%M", clock.gmtime(clock.time() + hours * 3600))}


@plugin.tool
def wind(params: JsonObject, _context: Context) -> JsonObject:
    turns = params.get("turns")
    if not isinstance(turns, int) or turns < 1:
        raise InvalidParams("turns must be a whole number from 1")
    plugin.log.info("winding", turns=turns)
    if turns >= TOO_MANY:
        plugin.log.error("the spring snapped", turns=turns)
        spring = _spring(plugin.config)
        spring.parent.mkdir(parents=True, exist_ok=True)
        spring.touch()
        os._exit(1)
    return {"turns": turns}


def _spring(config: Mapping[str, Any]) -> Path:
    return Path(str(config["case"])) / "broken-spring"


if __name__ == "__main__":
    plugin.run()
