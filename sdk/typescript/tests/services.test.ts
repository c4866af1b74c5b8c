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
