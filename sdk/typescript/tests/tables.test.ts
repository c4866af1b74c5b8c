import assert from "node:assert/strict";
import { test } from "node:test";

import { CapabilityDenied, createPlugin, PluginFault, type Plugin } from "paddock-sdk";
import { FakeTables, hostFor } from "paddock-sdk/testing";

const COUNT = "SELECT count(*) AS n FROM cats WHERE age > ?";
const ADD = `
  INSERT INTO cats (name)
  VALUES (?)`;

/** A plugin that keeps cats in tables. */
const keeper = (): Plugin => {
  const plugin = createPlugin({ name: "cats", version: "1.0.0" });
  plugin.tool("count", async () => (await plugin.storage.query<{ n: number }>(COUNT, [3])).rows[0]?.n);
  plugin.tool("add", async ({ names }) =>
    plugin.storage.transaction(async (together) => {
      let changed = 0;
      for (const name of names as readonly string[]) {
        changed += await together.exec(ADD, [name]);
      }
      return changed;
    }),
  );
  plugin.tool("rename", () => plugin.storage.exec("UPDATE cats SET name = lower(name) RETURNING name"));
  plugin.tool("besides", () => plugin.storage.transaction(() => plugin.storage.exec(ADD, ["Tom"])));
  plugin.tool("again", async () => {
    const begun = await plugin.storage.begin();
    await begun.rollback();
    await begun.exec(ADD, ["Tom"]);
  });
  plugin.tool("schema", () => plugin.storage.schema());
  plugin.tool("slip", () => plugin.storage.query("SELEKT 1"));
  return plugin;
};

test("statements are answered as the test says, and what they write is kept", async () => {
  const tables = new FakeTables({
    "SELECT count(*) AS n FROM cats WHERE age > ?": ([age]) => [{ n: age === 3 ? 2 : 0 }],
    "INSERT INTO cats (name) VALUES (?)": 1,
  });
  const host = await hostFor(keeper(), { tables });

  assert.equal(await host.call("count"), 2);
  assert.equal(await host.call("add", { names: ["Mia", "Tom"] }), 2);
  assert.deepEqual(tables.kept.map(({ params }) => params), [["Mia"], ["Tom"]]);
  assert.deepEqual(tables.made[0], { sql: COUNT, params: [3], transaction: null });
  assert.equal(tables.made[1]?.transaction, "tx_1");
});

test("what a call is going to answer goes with the commit, and without a word nothing does", async () => {
  const plugin = createPlugin({ name: "cats", version: "1.0.0" });
  plugin.tool("add", ({ tell }) =>
    plugin.storage.transaction(async (together) => {
      const answer = { added: await together.exec(ADD, ["Mia"]) };
      if (tell === true) {
        together.answers(answer);
      }
      return answer;
    }),
  );
  const host = await hostFor(plugin, { tables: new FakeTables({ [ADD]: 1 }) });

  await host.call("add", { tell: true });
  await host.call("add");
  const ends = host.asked.filter(({ method }) => method.endsWith(".commit")).map(({ params }) => params);
  assert.deepEqual(ends, [{ transaction: "tx_1", result: { added: 1 } }, { transaction: "tx_2" }]);
});

test("a transaction that fails leaves nothing", async () => {
  const tables = new FakeTables({
    [ADD]: ([name]) => {
      if (name === "Mia") {
        throw new PluginFault("SQLite says: UNIQUE constraint failed", { code: "storage.constraint" });
      }
      return 1;
    },
  });
  const host = await hostFor(keeper(), { tables });

  await assert.rejects(host.call("add", { names: ["Tom", "Mia"] }), { message: /UNIQUE constraint failed/ });
  assert.deepEqual([tables.made.length, tables.kept.length], [1, 0]);
  assert.equal(await host.call("add", { names: ["Tom"] }), 1);
  assert.equal(tables.kept.length, 1);
});

test("as with the host there is one transaction at a time, nothing besides it, and nothing after it", async () => {
  const host = await hostFor(keeper(), { tables: new FakeTables({ [ADD]: 1 }) });
  await assert.rejects(host.call("besides"), { code: -32005, data: { code: "storage.busy" } });
  await assert.rejects(host.call("again"), { message: /no transaction tx_2/, data: { code: "storage.no_transaction" } });
  assert.equal(await host.call("add", { names: ["Tom"] }), 1);
});

test("a statement that the test does not know is told in words, and one that returns rows has them", async () => {
  const renamed = { "UPDATE cats SET name = lower(name) RETURNING name": [{ name: "tom" }, { name: "mia" }] };
  const host = await hostFor(keeper(), { tables: new FakeTables(renamed, { names: ["cats"] }) });
  assert.equal(await host.call("rename"), 2);
  assert.deepEqual(await host.call("schema"), ["cats"]);
  await assert.rejects(host.call("slip"), { message: "the test has no answer for this statement: SELEKT 1" });
});

test("tables that are only read refuse to be written, and an answer of the test goes first", async () => {
  const plugin = createPlugin({ name: "cats", version: "1.0.0" });
  plugin.tool("add", () => plugin.storage.exec(ADD, ["Tom"]).catch((error: Error) => error.constructor.name));
  plugin.tool("begin", () => plugin.storage.begin().catch((error: Error) => error.constructor.name));
  plugin.tool("schema", () => plugin.storage.schema());
  const tables = new FakeTables({ [ADD]: 1 }, { writable: false });
  const host = await hostFor(plugin, { tables, answers: { "storage.schema": () => ({ tables: ["mine"] }) } });

  assert.deepEqual([await host.call("add"), await host.call("begin")], [CapabilityDenied.name, CapabilityDenied.name]);
  assert.deepEqual(await host.call("schema"), ["mine"]);
  assert.deepEqual(tables.made, []);
});
