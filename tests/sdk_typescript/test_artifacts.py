"""Big bytes of a caged node program, on the two pipes that it was started with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.runtime.stage import patiently
from tests.sdk_typescript.node import BUILT_SDK, needs_node

from paddock import Config, open_host
from paddock.plugins.manage.enable import enable

PROGRAM = """
import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createPlugin } from "./paddock-sdk/index.js";

const plugin = createPlugin({ name: "maker", version: "1.0.0", capabilitiesUsed: ["host:artifacts"] });
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

plugin.tool("make", async ({ size }) => {
  const bytes = randomBytes(size);
  writeFileSync("/tmp/made", bytes);
  const [uri, again] = await Promise.all([plugin.artifacts.put(bytes), plugin.artifacts.put("/tmp/made")]);
  return { uri, same: uri === again, sha256: sha256(bytes) };
});
plugin.tool("read", async ({ uri }) => {
  const [one, other] = await Promise.all([plugin.artifacts.get(uri), plugin.artifacts.get(uri)]);
  const part = await plugin.artifacts.get(uri, { offset: 1_000, length: 200_000 });
  return { sha256: sha256(one), same: one.equals(other), part: part.equals(one.subarray(1_000, 201_000)) };
});
plugin.start();
"""


@needs_node
@pytest.mark.parametrize("size", [1_000, 5_000_000])
async def test_what_is_put_side_by_side_is_read_again_whole_and_in_part(tmp_path: Path, size: int) -> None:
    tools = [
        {"name": name, "description": name, "effects": ["read_only"], "input_schema": {"type": "object"}}
        for name in ("make", "read")
    ]
    about = {"paddock": 1, "name": "maker", "version": "1.0.0", "description": "x", "tools": tools}
    about |= {"runtime": {"command": ["node", "./program.mjs"]}, "capabilities": ["host:artifacts"]}
    write_json(tmp_path / "package" / "paddock.yaml", about)
    write_file(tmp_path / "package" / "program.mjs", PROGRAM)
    shutil.copytree(BUILT_SDK, tmp_path / "package" / "paddock-sdk")
    home = Home(tmp_path)
    home.take(tmp_path / "package")
    home.changing(lambda plugins: enable(plugins, "maker"))

    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        made = await patiently(host.call("maker.make", {"size": size}))
        read = await patiently(host.call("maker.read", {"uri": made["uri"]}))

    assert made["same"]
    assert read == {"sha256": made["sha256"], "same": True, "part": True}
