/** Run with: node --test test_plugin.mjs */

import assert from "node:assert/strict";
import { test } from "node:test";

import { hostFor } from "./paddock-sdk/testing.js";
import { plugin } from "./plugin.js";

test("somebody is greeted with the word of the settings", async () => {
  const host = await hostFor(plugin, { config: { greeting: "Hi" } });
  assert.deepEqual(await host.call("greet", { name: "Ann" }), { text: "Hi, Ann!" });
  await assert.rejects(host.call("greet", { name: "" }));
  assert.equal(await host.shutdown(), 0);
});
