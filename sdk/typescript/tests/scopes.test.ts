import assert from "node:assert/strict";
import { test } from "node:test";

import { createPlugin, disclose, requiresScopes, type Plugin } from "paddock-sdk";
import { hostFor } from "paddock-sdk/testing";

const some = (namespace: "paddock" | "kaged" = "paddock"): Plugin =>
  createPlugin({ name: "some", version: "1.0.0", namespace });

test("a handler runs only where its caller has every scope that it asks for", async () => {
  const plugin = some();
  const input = { type: "object", required: ["to"], properties: { to: { type: "string" } } } as const;
  plugin.tool(
    "send",
    { input },
    requiresScopes(["mail:read", "mail:send"], ({ to }, call) => {
      const whom: string = to;
      return { to: whom, by: call.scopes };
    }),
  );
  const host = await hostFor(plugin);

  for (const scopes of [[], ["mail:read"], ["mail"]]) {
    await assert.rejects(host.call("send", { to: "Ann", scopes: ["mail:send"] }, { context: { scopes } }), {
      code: -32000,
      message: scopes.includes("mail:read") ? "the caller lacks mail:send" : "the caller lacks mail:read, mail:send",
      data: {
        code: "PERMISSION_DENIED",
        missing_scopes: ["mail:read", "mail:send"].filter((one) => !scopes.includes(one)),
        no_effect: true,
      },
    });
  }
  const scopes = ["mail:read", "mail:send"];
  assert.deepEqual(await host.call("send", { to: "Ann" }, { context: { scopes } }), { to: "Ann", by: scopes });
});

test("a stream that asks for scopes yields nothing without them", async () => {
  const plugin = some();
  plugin.method(
    "mail.read",
    requiresScopes(["mail:read"], async function* () {
      yield 1;
      return 2;
    }),
  );
  const host = await hostFor(plugin);
  const seen: unknown[] = [];
  const onEvent = (event: object): void => void seen.push(event);

  await assert.rejects(host.call("mail.read", {}, { onEvent }), { message: "the caller lacks mail:read" });
  assert.deepEqual(seen, []);
  assert.equal(await host.call("mail.read", {}, { onEvent, context: { scopes: ["mail:read"] } }), 2);
  assert.equal(seen.length, 1);
});

test("a handler that is not told scopes cannot ask for them", () => {
  const asking = requiresScopes(["mail:read"], () => 1);
  assert.throws(() => some("kaged").tool("read", asking), /does not receive its caller.*required_scopes/);
  assert.throws(() => some("kaged").method("mail.read", {}, asking), TypeError);
  assert.throws(() => some().hook("on_session_start", asking), /a hook has no caller/);
});

test("a result that would not come out the same again says so", () => {
  const drafted = disclose({ text: "Dear Ann" }, ["llm_sampling"], "low");
  const text: string = drafted.result.text;
  assert.deepEqual(drafted, {
    status: "succeeded",
    result: { text },
    nondeterminism: { is_nondeterministic: true, reasons: ["llm_sampling"], stability: "low" },
  });

  const failed = { status: "failed", error: { code: "X", message: "y" } } as const;
  const nondeterminism = { is_nondeterministic: false, reasons: [], stability: "medium" };
  assert.deepEqual(disclose(failed), { ...failed, nondeterminism });
  assert.deepEqual(disclose({ status: "green" }), { status: "succeeded", result: { status: "green" }, nondeterminism });
  assert.deepEqual(disclose(null).result, null);
});
