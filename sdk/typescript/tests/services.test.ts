import assert from "node:assert/strict";
import { test } from "node:test";

import { CapabilityDenied, createPlugin } from "paddock-sdk";
import { hostFor } from "paddock-sdk/testing";

test("a plugin asks whether it may, and is told how long to wait where it may not", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0" });
  plugin.tool("mail", async () => {
    const { allowed, retry_after } = await plugin.rate.limit("mail", { cost: 2, perMinute: 10 });
    return allowed ? "sent" : `in ${retry_after} s`;
  });
  plugin.tool("simply", () => plugin.rate.limit("mail"));
  const answers = { "rate.limit": ({ cost }: { cost?: unknown }) => ({ allowed: cost === 1, retry_after: 3.5 }) };
  const host = await hostFor(plugin, { answers });

  assert.equal(await host.call("mail"), "in 3.5 s");
  assert.deepEqual(await host.call("simply"), { allowed: true, retry_after: 3.5 });
  assert.deepEqual(
    host.asked.map(({ method, params }) => [method, params]),
    [
      ["paddock.rate.limit", { bucket: "mail", cost: 2, per_minute: 10 }],
      ["paddock.rate.limit", { bucket: "mail", cost: 1, per_minute: 60 }],
    ],
  );
});

test("what was not granted is refused, and a word in the ledger needs no grant", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0", namespace: "kaged" });
  plugin.tool("mail", () => plugin.rate.limit("mail").catch((error: Error) => error.constructor.name));
  plugin.tool("remind", () => plugin.audit.write("reminded", { to: "ann" }));
  const host = await hostFor(plugin);

  assert.equal(await host.call("mail"), CapabilityDenied.name);
  assert.equal(await host.call("remind"), true);
  assert.deepEqual(host.audited, [{ action: "reminded", details: { to: "ann" } }]);
  assert.equal(host.asked.at(-1)?.method, "kaged.audit.write");

  const busy = createPlugin({ name: "some", version: "1.0.0" });
  busy.tool("again", () => busy.audit.write("again"));
  const strict = await hostFor(busy, { answers: { "audit.write": () => ({ written: false }) } });
  assert.equal(await strict.call("again"), false);
});

test("a web service is asked through the host: text is text, bytes are bytes, and a secret is named", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0" });
  const headers = { Authorization: { secret: "token", prefix: "Bearer " } };
  plugin.tool("look", async () => (await plugin.http.fetch("https://a.example")).body);
  plugin.tool("send", async () => {
    const body = new Uint8Array([0, 255]);
    const sent = { url: "https://a.example", method: "POST", headers, body };
    return [...((await plugin.http.fetch(sent, { retries: 0 })).body as Uint8Array)];
  });
  const page = { status: 200, headers: {}, url: "https://a.example", attempts: 1 };
  const answers = {
    "http.fetch": ({ request }: { request?: unknown }) =>
      (request as { method?: string }).method ? { ...page, base64: "/wA=" } : { ...page, body: "hello" },
  };
  const host = await hostFor(plugin, { answers });

  assert.equal(await host.call("look"), "hello");
  assert.deepEqual(await host.call("send"), [255, 0]);
  assert.deepEqual(
    host.asked.map(({ method, params }) => [method, params]),
    [
      ["paddock.http.fetch", { request: { url: "https://a.example" } }],
      [
        "paddock.http.fetch",
        { retries: 0, request: { url: "https://a.example", method: "POST", headers, base64: "AP8=" } },
      ],
    ],
  );
});

test("a secret is had by its name, and what is not set is undefined", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0" });
  plugin.tool("length", async ({ name }) => (await plugin.secrets.get(name as string))?.length ?? null);
  const kept = ({ name }: { name?: unknown }) => ({ value: name === "token" ? "abc" : null, found: name === "token" });
  const host = await hostFor(plugin, { answers: { "secrets.get": kept } });

  assert.deepEqual([await host.call("length", { name: "token" }), await host.call("length", { name: "no" })], [3, null]);
  await assert.rejects((await hostFor(createNosy())).call("look"), { code: -32001 });
});

function createNosy() {
  const plugin = createPlugin({ name: "nosy", version: "1.0.0" });
  return plugin.tool("look", () => plugin.secrets.get("token"));
}

test("a call with an effect has the key under which it is made", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0" });
  plugin.tool("act", (_params, call) => call.idempotency_key);
  const host = await hostFor(plugin);

  assert.equal(await host.call("act", {}, { context: { idempotency_key: "order-1" } }), "order-1");
  assert.equal(await host.call("act"), null);
});
