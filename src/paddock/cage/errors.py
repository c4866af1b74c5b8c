"""The error of a host that cannot build a cage."""

from __future__ import annotations

from paddock.core.errors import Category, PluginError


class CageUnavailable(PluginError):
    """This host cannot build a cage, or not this one. The plugin does not start; the daemon goes on.

    The code says what is missing (`cage.bwrap_missing`, …) and the hint is the command to type.
    """

    code = "cage.unavailable"
    category = Category.DEPENDENCY
