import assert from "node:assert/strict";
import { setImmediate as aTurn } from "node:timers/promises";
import { test } from "node:test";

import {
  CapabilityDenied,
  ConfigInvalid,
  createPlugin,
  HostRefused,
  NoEffect,
  NotApplicable,
  PluginFault,
  ResourceBusy,
  type JsonObject,
  type Plugin,
} from "paddock-sdk";
import { CallFailed, hostFor } from "paddock-sdk/testing";

const some = (): Plugin => createPlugin({ name: "some", version: "1.0.0" });

test("a handler's parameters and result have the types of its schemas", async () => {
  const plugin = some().tool(
    "greet",
    {
      input: {
        type: "object",
        required: ["name"],
        properties: { name: { type: "string" }, times: { type: "integer" }, mood: { enum: ["glad", "sad"] } },
      },
      output: {
        type: "object",
        required: ["lines"],
        properties: { lines: { type: "array", items: { type: "string" } } },
      },
    },
    ({ name, times, mood }) => {
      const often: number | undefined = times;
      const how: "glad" | "sad" | undefined = mood;
      // @ts-expect-error: a name is text
      const wrong: number = name;
      return { lines: Array.from({ length: often ?? 1 }, () => `${how ?? "plain"} ${wrong}`) };
    },
  );
  // @ts-expect-error: the schema promises a number
  some().tool("count", { output: { type: "number" } }, () => "three");

  const host = await hostFor(plugin);
  const greeting = await host.call("greet", { name: "Ada", times: 2, mood: "glad" });
  assert.deepEqual(greeting, { lines: ["glad Ada", "glad Ada"] });
});

test("a program says what it declares before any handshake, and no more than that", async () => {
  const input = { type: "object", properties: { name: { type: "string" } } } as const;
  const plugin = some().tool("greet", { description: "Greet a person.", input }, () => "Hello").method("bare.one", () => 1);
  const said: string[] = [];
  const conversation = plugin.connect({ send: (line) => said.push(line), log: () => undefined });
  conversation.receive(Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "describe" })}\n`));
  await aTurn();
  assert.deepEqual((JSON.parse(said.join("")) as JsonObject)["result"], {
    name: "some",
    version: "1.0.0",
    tools: [{ name: "greet", description: "Greet a person.", input_schema: input }],
    methods: [{ name: "bare.one" }],
  });
});

test("wrong parameters are refused with every mistake, before the handler runs", async () => {
  const sides = { sides: { minimum: 2 }, times: { type: "integer" } } as const;
  const input = { type: "object", required: ["sides"], properties: sides } as const;
  const host = await hostFor(some().tool("roll", { input }, () => assert.fail("not reached")));
  await assert.rejects(host.call("roll", { times: "x" }), (failed: CallFailed) => {
    assert.equal(failed.code, -32602);
    assert.match(failed.message, /wrong: sides: missing field 'sides'; times: expected integer, found string$/);
    assert.deepEqual((failed.data as JsonObject)["errors"], [
      { path: "sides", message: "missing field 'sides'" },
      { path: "times", message: "expected integer, found string" },
    ]);
    return true;
  });
});

test("what is logged while a call is worked on has its id, also where two are under way", async () => {
  const plugin = createPlugin({ name: "logger", version: "1.0.0", concurrency: 2 });
  plugin.method("say.it", {}, async () => {
    await new Promise((done) => setImmediate(done));
    plugin.log.warning("on its way");
    return {};
  });
  const host = await hostFor(plugin);
  await Promise.all(["req_a", "req_b"].map((request_id) => host.call("say.it", {}, { context: { request_id } })));
  plugin.log.warning("by itself");
  assert.deepEqual(host.log.map((line) => line["request_id"]), ["req_a", "req_b", undefined]);
});

test("a result that breaks its own schema is the plugin's fault, and its log says how", async () => {
  const plugin = some();
  const output = { type: "object", properties: { at: { type: "string" } } } as const;
  const wrongly = (params: JsonObject): unknown =>
    params["right"] ? { at: new Date(0), unsaid: undefined } : { at: 5 };
  plugin.method("when.now", { output }, wrongly as never);
  const host = await hostFor(plugin);

  assert.deepEqual(await host.call("when.now", { right: true }), { at: "1970-01-01T00:00:00.000Z" });
  const refusal = { code: -32603, message: "the plugin gave something else than it declares" };
  await assert.rejects(host.call("when.now"), refusal);
  assert.deepEqual(host.log.map((line) => [line["method"], line["errors"]]), [
    ["when.now", [{ path: "at", message: "expected string, found integer" }]],
  ]);
});

test("the sketch of the protocol's own specification works as it stands there", async () => {
  let flushed = false;
  let folder = "";
  const plugin = createPlugin({
    name: "oh-my-pi",
    version: "1.4.2",
    namespace: "kaged",
    methods: {
      "presets.list": async (params, context) => ({ filter: params["filter"], project: context.project_id }),
    },
    notifications: ["catalog.updated"],
    onConfigUpdate: (config) => {
      folder = String(config["preset_dir"]);
    },
    onShutdown: async () => {
      flushed = true;
    },
  });
  const host = await hostFor(plugin, { config: { preset_dir: "/presets" } });

  assert.deepEqual(await host.call("presets.list", { filter: "web" }, { context: { project_id: "music" } }), {
    filter: "web",
    project: "music",
  });
  plugin.notify("catalog.updated", { entries_added: 3 });
  plugin.log.error("Failed to read preset directory", { error: new Error("gone") });
  assert.equal(await host.shutdown(), 0);
  assert.deepEqual([folder, flushed], ["/presets", true]);
  assert.deepEqual(host.notifications, [{ name: "catalog.updated", params: { entries_added: 3 } }]);
  assert.match(String(host.log[0]?.["error"]), /^Error: gone/);
});

test("a question belongs to the call in which it is asked, however far from its handler", async () => {
  const plugin = some();
  const ask = async (key: string): Promise<unknown> => {
    await aTurn();
    return plugin.request("paddock.cache.get", { key });
  };
  let left: Promise<unknown> = Promise.resolve();
  plugin.tool("look", async (params) => (await Promise.all([ask(String(params["key"])), ask("shared")]))[0] as never);
  plugin.tool("leave", () => {
    left = aTurn().then(() => ask("later"));
  });
  const host = await hostFor(plugin, { answers: { "cache.get": ({ key }) => `value of ${String(key)}` } });

  assert.deepEqual(await Promise.all([host.call("look", { key: "a" }), host.call("look", { key: "b" })]), [
    "value of a",
    "value of b",
  ]);
  const calls = host.asked.map(({ params, call }) => [params["key"], call]);
  assert.equal(new Set(calls.filter(([key]) => key === "a" || key === "b").map(([, call]) => call)).size, 2);
  assert.ok(calls.every(([, call]) => call !== null));

  await host.call("leave");
  await left;
  assert.deepEqual(host.asked.at(-1), { method: "paddock.cache.get", params: { key: "later" }, call: null });
});

test("what nobody granted is told apart from what went wrong", async () => {
  const plugin = some();
  plugin.tool("read", () => plugin.storage.query("SELECT 1").catch((error: Error) => error.constructor.name));
  plugin.tool("write", () => plugin.storage.exec("INSERT").catch((error: Error) => error.constructor.name));
  const host = await hostFor(plugin, {
    answers: {
      "storage.exec": () => {
        throw new ResourceBusy("later");
      },
    },
  });
  assert.equal(await host.call("read"), CapabilityDenied.name);
  assert.equal(await host.call("write"), HostRefused.name);
});

test("what failed without an effect says so, and nothing else does", async () => {
  const plugin = some();
  plugin
    .tool("none", () => {
      throw new NoEffect("the other side is not there", { tried: 1 });
    })
    .tool("listed", () => {
      throw new NoEffect("none of these", ["a"]);
    })
    .tool("unsaid", () => {
      throw new NoEffect("whatever it was", { number: 1n });
    })
    .tool("later", () => {
      throw new ResourceBusy("later");
    })
    .tool("failed", () => {
      throw new Error("after it");
    })
    .tool("asked", () => plugin.cache.get("key"));
  const host = await hostFor(plugin, {
    answers: {
      "cache.get": () => {
        throw new PluginFault("not like this", undefined, -32602);
      },
    },
  });

  const data = async (name: string): Promise<unknown> => {
    const error: unknown = await host.call(name).catch((failed: unknown) => failed);
    assert(error instanceof CallFailed);
    return [error.code, error.data];
  };
  assert.deepEqual(await data("none"), [-32000, { tried: 1, no_effect: true }]);
  assert.deepEqual(await data("listed"), [-32000, { data: ["a"], no_effect: true }]);
  assert.deepEqual(await data("unsaid"), [-32000, { no_effect: true }]);
  assert.deepEqual(await data("later"), [-32005, { no_effect: true }]);
  assert.deepEqual(await data("failed"), [-32603, null]);
  assert.deepEqual(await data("asked"), [-32000, null], "what was wrong with our question is not the caller's");
});

test("values are kept by key, and all keys are found page by page", async () => {
  const plugin = some();
  const kept = new Map<string, unknown>();
  plugin.tool("fill", async () => {
    for (const name of ["a1", "a2", "a3", "b1"]) {
      await plugin.keyvalue.put(name, { name });
    }
    await plugin.keyvalue.delete("a2");
    await plugin.cache.set("short", [1], 5);
    const names: string[] = [];
    for await (const name of plugin.keyvalue.keys("a")) {
      names.push(name);
    }
    return { names, value: await plugin.keyvalue.get("b1"), none: (await plugin.cache.get("b1")) === undefined };
  });
  const host = await hostFor(plugin, {
    answers: {
      "keyvalue.put": ({ key, value }) => void kept.set(String(key), value),
      "keyvalue.delete": ({ key }) => ({ deleted: kept.delete(String(key)) }),
      "keyvalue.get": ({ key }) => ({ value: kept.get(String(key)), found: kept.has(String(key)) }),
      "keyvalue.list": ({ prefix, after }) => {
        const [key, ...more] = [...kept.keys()].filter((one) => one.startsWith(String(prefix)) && one > String(after));
        return { keys: key === undefined ? [] : [key], next: more.length > 0 ? key : null };
      },
      "cache.set": ({ ttl }) => ({ ttl }),
      "cache.get": () => ({ value: null, found: false }),
    },
  });
  assert.deepEqual(await host.call("fill"), { names: ["a1", "a3"], value: { name: "b1" }, none: true });
  const cached = host.asked.find(({ method }) => method === "paddock.cache.set");
  assert.deepEqual(cached?.params, { key: "short", value: [1], ttl: 5 });
});

test("the host is asked at most thirty-two things at a time", async () => {
  const plugin = some();
  const hundred = (): Promise<unknown[]> =>
    Promise.all(Array.from({ length: 100 }, () => plugin.request("paddock.x")));
  plugin.tool("many", async () => (await hundred()).length);
  let open = 0;
  let most = 0;
  const host = await hostFor(plugin, {
    answers: {
      x: async () => {
        most = Math.max(most, ++open);
        await aTurn();
        open -= 1;
      },
    },
  });
  assert.equal(await host.call("many"), 100);
  assert.equal(most, 32);
});

test("a host that answers nobody cannot make the plugin keep ever more calls", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0", concurrency: 1 });
  plugin.tool("hold", (_params, call) => new Promise((_, reject) => call.signal.addEventListener("abort", reject)));
  const host = await hostFor(plugin);
  const calls = Array.from({ length: 1 + 1024 + 3 }, () => host.call("hold"));
  const refused = await Promise.allSettled(calls.slice(-3));
  assert.deepEqual(refused.map((one) => one.status === "rejected" && one.reason.code), [-32005, -32005, -32005]);
  calls.forEach((call) => call.catch(() => undefined));
});

test("events reach the test, and its signal cancels the call", async () => {
  const plugin = some();
  plugin.tool("count", async function* (_params, call) {
    for (let number = 1; ; number++) {
      yield number;
      await call.checkpoint();
    }
  });
  const host = await hostFor(plugin);
  const stop = new AbortController();
  const seen: unknown[] = [];
  const call = host.call("count", {}, {
    signal: stop.signal,
    onEvent: (event) => void (seen.push(event["data"]) === 3 && stop.abort()),
  });
  await assert.rejects(call, { code: -32000, message: "cancelled" });
  assert.deepEqual(seen.slice(0, 3), [1, 2, 3]);
});

test("hooks, projects and refused settings", async () => {
  const plugin = createPlugin({
    name: "some",
    version: "1.0.0",
    onConfigUpdate: ({ size }) => {
      if (size === 0) {
        throw new ConfigInvalid("too small");
      }
    },
  });
  plugin.hook("on_session_start", (_params, call) => {
    if (call.project_id === null) {
      throw new NotApplicable("needs a project");
    }
    return { inject: JSON.stringify([plugin.config, plugin.projects.get(call.project_id)]) };
  });
  const host = await hostFor(plugin, { config: { size: 1 }, projects: { music: { loud: true } } });

  await assert.rejects(host.configure({ size: 0 }), { code: -32004, message: "too small" });
  const injected = await host.hook("on_session_start", {}, { context: { project_id: "music" } });
  assert.deepEqual(injected, { inject: '[{"size":1},{"loud":true}]' });
  await assert.rejects(host.hook("on_session_start"), { code: -32006 });
});

test("an author's slips are told when the plugin is put together", async () => {
  const plugin = some().tool("twice", () => 1);
  assert.throws(() => plugin.tool("twice", () => 2), /some\.twice has a handler already/);
  const odd = { kind: "text" } as never;
  assert.throws(() => plugin.tool("odd", { input: odd }, () => 1), /kind: this keyword is not checked/);
  assert.throws(() => plugin.notify("no.such"), /not among the notifications/);
  assert.throws(() => createPlugin({ name: "some", version: "1", concurrency: 0 }), /concurrency/);
  await assert.rejects(plugin.request("paddock.x"), /not running/);

  const early = createPlugin({ name: "some", version: "1.0.0", notifications: ["a.b"] });
  early.connect({ send: () => undefined, log: () => undefined });
  assert.throws(() => early.notify("a.b"), /before the handshake is over/);
  assert.throws(() => early.tool("late", () => 1), /already running/);
});
