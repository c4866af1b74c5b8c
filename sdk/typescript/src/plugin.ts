/** A plugin as its author declares it, and what its handlers may do while it runs. */

import { AsyncLocalStorage } from "node:async_hooks";

import { Artifacts } from "./artifacts.js";
import { Audit } from "./audit.js";
import type { Underway } from "./call.js";
import { Conversation } from "./conversation.js";
import { HostGone } from "./faults.js";
import { Served, type Handler, type Schemas, type Typed } from "./handlers.js";
import { Http } from "./http.js";
import type { Json, JsonObject } from "./json.js";
import { Log } from "./log.js";
import { Rate } from "./rate.js";
import { asksForScopes } from "./scopes.js";
import { Secrets } from "./secrets.js";
import { takeStdio } from "./stdio.js";
import { Storage } from "./storage.js";
import { System, type Settings } from "./system.js";
import { Cache, KeyValue } from "./values.js";

export interface PluginOptions {
  /** As in the manifest; the host ends a plugin that answers to another name. */
  readonly name: string;
  /** As in the manifest. */
  readonly version: string;
  /** How the host's own methods are called: `kaged` for a plugin with that manifest. */
  readonly namespace?: "paddock" | "kaged";
  /** Methods by name, e.g. `presets.list`; `plugin.method` adds others with schemas. */
  readonly methods?: Readonly<Record<string, Handler>>;
  /** What the plugin may announce. */
  readonly notifications?: readonly string[];
  /** The capabilities that it cannot do without; it may use all that were granted, listed here or not. */
  readonly capabilitiesUsed?: readonly string[];
  /** How many calls may be under way at a time; the others wait. 1 makes it one after the other. */
  readonly concurrency?: number;
  /** Is given every new configuration before it counts; throws ConfigInvalid to refuse it. */
  readonly onConfigUpdate?: (config: JsonObject) => unknown;
  /** Is called once before the process ends. If it fails, the process ends with 1. */
  readonly onShutdown?: () => unknown;
}

/** Where a plugin's messages go and its log is written; the process's own pipes unless a test says otherwise. */
export interface Surroundings {
  readonly send: (line: string) => void;
  readonly log: (line: string) => void;
}

export class Plugin {
  readonly name: string;
  readonly version: string;
  readonly namespace: string;
  readonly storage: Storage;
  readonly keyvalue: KeyValue;
  readonly cache: Cache;
  readonly artifacts: Artifacts;
  readonly rate: Rate;
  readonly audit: Audit;
  readonly http: Http;
  readonly secrets: Secrets;
  readonly #options: PluginOptions;
  readonly #methods: string[] = [];
  readonly #tools: string[] = [];
  readonly #handlers = new Map<string, Served>(); // by the name on the wire
  readonly #settings: Settings = { config: {}, projects: new Map() };
  readonly #current = new AsyncLocalStorage<Underway>();
  #log: Log;
  #system: System | undefined;
  #conversation: Conversation | undefined;

  constructor(options: PluginOptions) {
    this.name = options.name;
    this.version = options.version;
    this.namespace = options.namespace ?? "paddock";
    const ask = (method: string, params: JsonObject): Promise<Json> => this.request(method, params);
    this.storage = new Storage(ask, this.namespace);
    this.keyvalue = new KeyValue(ask, this.namespace);
    this.cache = new Cache(ask, this.namespace);
    this.artifacts = new Artifacts(ask, this.namespace);
    this.rate = new Rate(ask, this.namespace);
    this.audit = new Audit(ask, this.namespace);
    this.http = new Http(ask, this.namespace);
    this.secrets = new Secrets(ask, this.namespace);
    if (!Number.isInteger(options.concurrency ?? 1) || (options.concurrency ?? 1) < 1) {
      throw new RangeError("concurrency must be a whole number from 1");
    }
    this.#options = options;
    this.#log = this.#logTo((line) => process.stderr.write(line));
    for (const [name, handler] of Object.entries(options.methods ?? {})) {
      this.method(name, handler);
    }
  }

  // --- what an author declares --------------------------------------------------------------------------------------

  /** Serve a tool; on the wire it is `<plugin>.<tool>`. Parameters and result are checked against the schemas. */
  tool<const S extends Schemas>(name: string, schemas: S, handler: Typed<S>): this;
  tool(name: string, handler: Handler): this;
  tool(name: string, ...rest: [Handler] | [Schemas, Handler<never>]): this {
    this.#serve(`${this.name}.${name}`, rest);
    this.#tools.push(name);
    return this;
  }

  /** Serve a method, e.g. `presets.list`. Parameters and result are checked against the schemas. */
  method<const S extends Schemas>(name: string, schemas: S, handler: Typed<S>): this;
  method(name: string, handler: Handler): this;
  method(name: string, ...rest: [Handler] | [Schemas, Handler<never>]): this {
    this.#serve(name, rest);
    this.#methods.push(name);
    return this;
  }

  /** Serve a hook: the host calls it at a moment in a session, e.g. `on_session_start`. */
  hook(name: string, handler: Handler): this {
    if (asksForScopes(handler)) {
      throw new TypeError(`${name}: a hook has no caller, so it has no scopes`);
    }
    return this.#serve(`${this.namespace}.hook.${name}`, [handler]);
  }

  #serve(wireName: string, rest: [Handler] | [Schemas, Handler<never>]): this {
    if (this.#conversation) {
      throw new Error(`${wireName} comes too late: the plugin is already running`);
    }
    if (this.#handlers.has(wireName)) {
      throw new Error(`${wireName} has a handler already`);
    }
    const [schemas, handler] = rest.length === 1 ? [{}, rest[0]] : rest;
    if (this.namespace === "kaged" && asksForScopes(handler)) {
      const instead = "the manifest's required_scopes are checked by the host";
      throw new TypeError(`${wireName}: a kaged plugin does not receive its caller's scopes; ${instead}`);
    }
    this.#handlers.set(wireName, new Served(schemas, handler));
    return this;
  }

  // --- what a handler may do ----------------------------------------------------------------------------------------

  /** The newest settings that were accepted. */
  get config(): JsonObject {
    return this.#settings.config;
  }

  /** The projects that use this plugin, each with its settings. */
  get projects(): ReadonlyMap<string, JsonObject> {
    return this.#settings.projects;
  }

  /** Writes to stderr, which the host keeps as the plugin's log. */
  get log(): Log {
    return this.#log;
  }

  /** Announce something to the host, which does not answer. */
  notify(name: string, params: JsonObject = {}): void {
    if (!this.#options.notifications?.includes(name)) {
      throw new Error(`'${name}' is not among the notifications of this plugin`);
    }
    this.#running().say({ method: name, params });
  }

  /**
   * Ask the host for something. Inside a handler the request counts as part of its call.
   *
   * @throws HostRefused: it answered with an error. HostGone: it closed the pipe.
   */
  async request(method: string, params: JsonObject = {}): Promise<Json> {
    const token = this.#current.getStore()?.token;
    return this.#running().questions.ask(method, token === undefined ? params : { ...params, _call: token });
  }

  #running(): Conversation {
    if (!this.#conversation) {
      throw new Error("the plugin is not running; call start()");
    }
    if (this.#system?.phase !== "running") {
      throw new Error("nothing may be said before the handshake is over: the host would end the plugin");
    }
    return this.#conversation;
  }

  // --- running ------------------------------------------------------------------------------------------------------

  /** Serve the host on stdin and stdout until it says shutdown or closes the pipe; then the process ends. */
  async start(): Promise<never> {
    const stdio = takeStdio();
    const conversation = this.connect(stdio);
    stdio.feed(conversation);
    await conversation.over;
    process.exit(await this.shutDown());
  }

  /** Begin a conversation over other pipes than the process's own. For tests, and for other ways to carry lines. */
  connect(surroundings: Surroundings): Conversation {
    if (this.#conversation) {
      throw new Error("the plugin is already running");
    }
    const { concurrency = 16, onConfigUpdate = () => undefined } = this.#options;
    this.#log = this.#logTo(surroundings.log);
    this.#system = new System(
      () => this.#introduction(),
      () => this.describe(),
      this.#settings,
      onConfigUpdate,
      this.#log,
    );
    this.#conversation = new Conversation({
      send: surroundings.send,
      namespace: this.namespace,
      concurrency,
      handlers: this.#handlers,
      system: this.#system,
      log: this.#log,
      current: this.#current,
    });
    return this.#conversation;
  }

  /** Say goodbye; gives the exit code. */
  async shutDown(): Promise<number> {
    try {
      await this.#options.onShutdown?.();
    } catch (error) {
      if (error instanceof HostGone) {
        return 0;
      }
      // What it should have kept may be lost: the exit code must say so.
      this.#log.error("the last handler failed", { stack: error instanceof Error ? error.stack : String(error) });
      return 1;
    }
    return 0;
  }

  /** The tools and methods as a manifest declares them, as far as they are declared here. */
  describe(): JsonObject {
    const entry = (name: string, wireName: string): JsonObject => {
      const { description, input, output } = this.#handlers.get(wireName)?.schemas ?? {};
      const declared = { description, input_schema: input, output_schema: output };
      return { name, ...(JSON.parse(JSON.stringify(declared)) as JsonObject) };
    };
    return {
      name: this.name,
      version: this.version,
      tools: this.#tools.map((name) => entry(name, `${this.name}.${name}`)),
      methods: this.#methods.map((name) => entry(name, name)),
    };
  }

  #introduction() {
    const { notifications = [], capabilitiesUsed = [] } = this.#options;
    return { name: this.name, version: this.version, methods: this.#methods, tools: this.#tools, notifications, capabilitiesUsed };
  }

  #logTo(write: (line: string) => void): Log {
    return new Log(this.name, process.env[`${this.namespace.toUpperCase()}_LOG_LEVEL`], write, () => {
      const request_id = this.#current.getStore()?.request_id;
      return request_id ? { request_id } : {};
    });
  }
}

/** A plugin to add tools, methods and hooks to, and then to start. */
export function createPlugin(options: PluginOptions): Plugin {
  return new Plugin(options);
}
