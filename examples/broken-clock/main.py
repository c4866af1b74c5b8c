"""A clock with a weak spring. Once it is broken, every start fails: a plugin that keeps falling is given up."""

from __future__ import annotations

import os
import sys
import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

from paddock_sdk import JsonObject, Plugin

ZONES = {"london": 0, "nairobi": 3, "tokyo": 9}  # hours from Greenwich, in winter
TOO_MANY = 10

plugin = Plugin("broken-clock", "1.0.0")


class Time(TypedDict):
    time: str


class Wound(TypedDict):
    turns: int


@plugin.on_config
def look_inside(config: JsonObject) -> None:
    if _spring(config).exists():
        sys.exit("the spring is broken")


@plugin.tool
def time(city: Annotated[str, "London, Nairobi or Tokyo", {"minLength": 1, "maxLength": 100}]) -> Time:
    """What time it is. It knows the time in a few cities."""
    hours = ZONES.get(city.casefold())
    if hours is None:
        raise LookupError(f"no hand points to {city}")
    return {"time": clock.strftime("%H:%M", clock.gmtime(clock.time() + hours * 3600))}


@plugin.tool
def wind(turns: Annotated[int, {"minimum": 1, "maximum": 20}]) -> Wound:
    """Wind it. Ten turns are too many, and break it for good."""
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
