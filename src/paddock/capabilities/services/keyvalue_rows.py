"""The keyvalue service's rows: durable values by key, separate for each plugin and tenant."""

from __future__ import annotations

from msgspec import Struct

from paddock.core.errors import CallerError
from paddock.store.database import Transaction

MAX_VALUE_BYTES = 1 << 20


class KeyValueLimits(Struct, frozen=True):
    """Quota of one plugin for one tenant: bytes of keys and values, and number of keys."""

    bytes: int = 64 << 20
    keys: int = 100_000


def get_value(tx: Transaction, tenant: str, plugin: str, key: str) -> str | None:
    """Return the JSON stored under a key."""
    row = tx.one(
        "SELECT value FROM plugin_values WHERE tenant = ? AND plugin = ? AND key = ?",
        (tenant, plugin, key),
    )
    return None if row is None else row["value"]


def put_value(
    tx: Transaction, tenant: str, plugin: str, key: str, value: str, *, changed_at: str, limits: KeyValueLimits
) -> None:
    """Store JSON under a key, replacing its value.

    Raises:
        CallerError: `keyvalue.full` when this would exceed the plugin's quota.
    """
    bytes_before, keys_before = _locked_totals(tx, tenant, plugin)
    size = _size(key, value)
    old_size = _stored_size(tx, tenant, plugin, key)
    bytes_after = bytes_before + size - (old_size or 0)
    keys_after = keys_before + (old_size is None)
    if (bytes_after > limits.bytes and size > (old_size or 0)) or keys_after > limits.keys:
        raise CallerError(
            f"{plugin} keeps as much as it may: {limits.bytes} bytes under {limits.keys} keys",
            code="keyvalue.full",
            hint="delete what is not needed any more",
        )
    tx.execute(
        "INSERT INTO plugin_values (tenant, plugin, key, value, size, changed_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (tenant, plugin, key) DO UPDATE"
        " SET value = excluded.value, size = excluded.size, changed_at = excluded.changed_at",
        (tenant, plugin, key, value, size, changed_at),
    )
    _add_to_totals(tx, tenant, plugin, bytes_after, keys_after)


def delete_value(tx: Transaction, tenant: str, plugin: str, key: str) -> bool:
    """Delete a value and return whether there was one."""
    bytes_before, keys_before = _locked_totals(tx, tenant, plugin)
    size = _stored_size(tx, tenant, plugin, key)
    if size is None:
        return False
    tx.execute("DELETE FROM plugin_values WHERE tenant = ? AND plugin = ? AND key = ?", (tenant, plugin, key))
    _add_to_totals(tx, tenant, plugin, bytes_before - size, keys_before - 1)
    return True


def list_keys(tx: Transaction, tenant: str, plugin: str, *, prefix: str, after: str, limit: int) -> list[str]:
    """List the keys with a prefix that come after a key, in code point order."""
    prefix_end = _prefix_end(prefix)
    rows = tx.all(
        "SELECT key FROM plugin_values WHERE tenant = ? AND plugin = ? AND key >= ? AND key > ?"
        " AND (? = '' OR key < ?) ORDER BY key LIMIT ?",
        (tenant, plugin, prefix, after, prefix_end, prefix_end, limit),
    )
    return [row["key"] for row in rows]


def delete_all_values(tx: Transaction, plugin: str) -> int:
    """Delete all values of an uninstalled plugin, for all tenants, and return their number."""
    deleted = tx.execute("DELETE FROM plugin_values WHERE plugin = ?", (plugin,))
    tx.execute("DELETE FROM plugin_value_totals WHERE plugin = ?", (plugin,))
    return deleted


def _locked_totals(tx: Transaction, tenant: str, plugin: str) -> tuple[int, int]:
    """Return the totals of bytes and keys, and lock their row.

    On PostgreSQL, concurrent changes by one plugin wait for this row.
    """
    tx.execute(
        "INSERT INTO plugin_value_totals (tenant, plugin, bytes, keys) VALUES (?, ?, 0, 0)"
        " ON CONFLICT (tenant, plugin) DO UPDATE SET keys = plugin_value_totals.keys",
        (tenant, plugin),
    )
    row = tx.one("SELECT bytes, keys FROM plugin_value_totals WHERE tenant = ? AND plugin = ?", (tenant, plugin))
    return (row["bytes"], row["keys"]) if row else (0, 0)


def _stored_size(tx: Transaction, tenant: str, plugin: str, key: str) -> int | None:
    row = tx.one("SELECT size FROM plugin_values WHERE tenant = ? AND plugin = ? AND key = ?", (tenant, plugin, key))
    return None if row is None else row["size"]


def _add_to_totals(tx: Transaction, tenant: str, plugin: str, size: int, keys: int) -> None:
    tx.execute(
        "UPDATE plugin_value_totals SET bytes = ?, keys = ? WHERE tenant = ? AND plugin = ?",
        (size, keys, tenant, plugin),
    )


def _size(key: str, value: str) -> int:
    return len(key.encode()) + len(value.encode())


def _prefix_end(prefix: str) -> str:
    """Return the first string after all strings with the prefix; empty if there is none."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < 0x10FFFF:
            following = 0xE000 if last == 0xD7FF else last + 1  # skip the surrogates, which no text contains
            return prefix[: length - 1] + chr(following)
    return ""
