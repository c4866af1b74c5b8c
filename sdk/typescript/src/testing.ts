/**
 * A plugin run inside a test, with the test in the host's place: no process and no pipe, but the same lines.
 *
 *     const host = await hostFor(plugin, { answers: { "storage.query": () => ({ rows: [], columns: [] }) } });
 *     assert.deepEqual(await host.call("greet", { name: "Ada" }), { text: "Hello, Ada" });
 *     assert.equal(await host.shutdown(), 0);
 */

import type { Context } from "./call.js";
import type { Conversation } from "./conversation.js";
import type { FakeTables } from "./fake-tables.js";
import { CAPABILITY_DENIED, PluginFault } from "./faults.js";
import { isObject, type Json, type JsonObject } from "./json.js";
import { lineOf } from "./lines.js";
import type { Id } from "./message.js";
import type { Plugin } from "./plugin.js";

export { FakeTables, type Statement, type StatementAnswer, type StatementResult, type TablesOptions } from "./fake-tables.js";

export interface HostOptions {
  readonly config?: JsonObject;
  /** Projects that use the plugin, each with its configuration. */
  readonly projects?: Readonly<Record<string, JsonObject>>;
  /** What the host answers, by method without its namespace; nothing else is granted. Throw a PluginFault to refuse. */
  readonly answers?: Readonly<Record<string, (params: JsonObject) => unknown>>;
  /** What answers `storage`, where `answers` has nothing for it. */
  readonly tables?: FakeTables;
}

export interface CallOptions {
  readonly context?: Partial<Context>;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: JsonObject) => void;
}

/** Something the plugin asked the host for, and the number of the call it belongs to. */
export interface Asked {
  readonly method: string;
  readonly params: JsonObject;
  readonly call: number | null;
}

/** The plugin answered a call with an error. */
export class CallFailed extends Error {
  override readonly name = "CallFailed";

  constructor(
    readonly code: number,
    message: string,
    readonly data: Json,
  ) {
    super(message);
  }
}

/** A running plugin, greeted and configured. Give it a plugin of its own: one conversation is all it can have. */
export async function hostFor(plugin: Plugin, options: HostOptions = {}): Promise<FakeHost> {
  const host = new FakeHost(plugin, options);
  await host.greet();
  return host;
}

interface Waiting {
  readonly resolve: (result: Json) => void;
  readonly reject: (error: Error) => void;
  readonly onEvent: ((event: JsonObject) => void) | undefined;
}

export class FakeHost {
  /** What the plugin said of itself in the handshake. */
  introduction: JsonObject = {};
  readonly notifications: { readonly name: string; readonly params: JsonObject }[] = [];
  readonly asked: Asked[] = [];
  readonly log: JsonObject[] = [];
  /** What the plugin wrote with `plugin.audit`, which needs no answer of the test: every plugin has it. */
  readonly audited: { readonly action: string; readonly details: JsonObject }[] = [];
  readonly #plugin: Plugin;
  readonly #options: HostOptions;
  readonly #conversation: Conversation;
  readonly #waiting = new Map<Id, Waiting>();
  #lastId = 0;

  constructor(plugin: Plugin, options: HostOptions) {
    this.#plugin = plugin;
    this.#options = options;
    this.#conversation = plugin.connect({
      send: (line) => queueMicrotask(() => this.#hear(JSON.parse(line))),
      log: (line) => void this.log.push(JSON.parse(line)),
    });
  }

  /** The handshake, the settings and the projects. */
  async greet(): Promise<void> {
    const { config = {}, projects = {} } = this.#options;
    const asked = { plugin_name: this.#plugin.name, api_version: 1, storage_available: true };
    const params = { daemon_version: "0.0.0", ...asked, projects: Object.keys(projects) };
    this.introduction = (await this.request("initialize", params)) as JsonObject;
    this.tell("initialized");
    await this.configure(config);
    for (const [project, settings] of Object.entries(projects)) {
      await this.request("projects.activated", { project, config: settings });
    }
  }

  /** Call a tool by its short name, or anything by its name on the wire. */
  async call(name: string, params: JsonObject = {}, options: CallOptions = {}): Promise<Json> {
    const wireName = name.includes(".") ? name : `${this.#plugin.name}.${name}`;
    const anonymous = { operator_id: null, project_id: null, agent_path: null, session_id: null, idempotency_key: null };
    const number = this.#lastId + 1;
    const context = { ...anonymous, request_id: `req_${number}`, ...options.context };
    const answer = this.request(wireName, { ...params, _context: context, _call: `call-${number}` }, options.onEvent);
    const cancel = (): void => this.tell(`${this.#plugin.namespace}.cancel`, { id: number });
    options.signal?.addEventListener("abort", cancel, { once: true });
    try {
      return await answer;
    } finally {
      options.signal?.removeEventListener("abort", cancel);
    }
  }

  /** Fire a hook. */
  hook(name: string, params: JsonObject = {}, options: CallOptions = {}): Promise<Json> {
    return this.call(`${this.#plugin.namespace}.hook.${name}`, params, options);
  }

  /** Give the plugin new settings; rejects with CallFailed if it refuses them. */
  async configure(config: JsonObject): Promise<void> {
    await this.request("config.update", { config });
  }

  /** Say shutdown, wait for what is under way, and give the exit code that the process would have. */
  async shutdown(): Promise<number> {
    this.tell("shutdown");
    await this.#conversation.over;
    return this.#plugin.shutDown();
  }

  /** Any request on the wire. */
  request(method: string, params: JsonObject, onEvent?: (event: JsonObject) => void): Promise<Json> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onEvent });
      this.#say({ id, method, params });
    });
  }

  /** Any notification on the wire. */
  tell(method: string, params: JsonObject = {}): void {
    this.#say({ method, params });
  }

  #say(message: object): void {
    this.#conversation.receive(Buffer.from(lineOf(message)));
  }

  #hear(message: JsonObject): void {
    const { id, method, params, result, error } = message;
    if (typeof method === "string" && isObject(params)) {
      if (id !== undefined) {
        void this.#answer(id as Id, method, params);
      } else if (method === `${this.#plugin.namespace}.event`) {
        this.#waiting.get(params["id"] as Id)?.onEvent?.(params["event"] as JsonObject);
      } else {
        this.notifications.push({ name: method, params });
      }
      return;
    }
    const waiting = this.#waiting.get(id as Id);
    this.#waiting.delete(id as Id);
    if (isObject(error)) {
      waiting?.reject(new CallFailed(error["code"] as number, error["message"] as string, error["data"] ?? null));
    } else {
      waiting?.resolve(result ?? null);
    }
  }

  async #answer(id: Id, method: string, params: JsonObject): Promise<void> {
    const { _call: token, ...own } = params;
    const call = typeof token === "string" ? Number(token.replace("call-", "")) : null;
    this.asked.push({ method, params: own, call });
    const answer = this.#answerTo(method.replace(`${this.#plugin.namespace}.`, ""));
    try {
      if (!answer) {
        throw new PluginFault(`${method} is not granted: the test has no answer for it`, undefined, CAPABILITY_DENIED);
      }
      this.#say({ id, result: (await answer(own)) ?? null });
    } catch (error) {
      const fault = error instanceof PluginFault ? error : new PluginFault(String(error));
      this.#say({ id, error: fault.toError() });
    }
  }

  #answerTo(name: string): ((params: JsonObject) => unknown) | undefined {
    const { answers = {}, tables } = this.#options;
    const [service = "", operation = ""] = name.split(".");
    if (Object.hasOwn(answers, name)) {
      return answers[name];
    }
    if (tables && service === "storage") {
      return (params) => tables.answer(operation, params);
    }
    return name === "audit.write" ? (params) => this.#audit(params) : undefined;
  }

  #audit({ action, details }: JsonObject): JsonObject {
    this.audited.push({ action: String(action), details: isObject(details) ? details : {} });
    return { written: true };
  }
}
