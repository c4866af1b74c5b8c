/** What the host says to every plugin: the handshake, its settings, the projects that use it. */

import { ConfigInvalid, INVALID_REQUEST, InvalidParams, NotInitialized, PluginFault } from "./faults.js";
import { isObject, type JsonObject } from "./json.js";
import type { Log } from "./log.js";

export const API_VERSION = 1;
const FEATURES = ["call_tokens", "cancel", "events"]; // what this SDK can do beyond the plain protocol
export const OK = { status: "ok" } as const;

/** What the handshake says about a plugin. */
export interface Introduction {
  readonly name: string;
  readonly version: string;
  readonly methods: readonly string[];
  readonly tools: readonly string[];
  readonly notifications: readonly string[];
  readonly capabilitiesUsed: readonly string[];
}

/** What may change while a plugin runs. */
export interface Settings {
  config: JsonObject;
  readonly projects: Map<string, JsonObject>; // the projects that use this plugin, each with its configuration
}

export class System {
  phase: "new" | "initializing" | "running" = "new";
  readonly #introduce: () => Introduction;
  readonly #settings: Settings;
  readonly #onConfigUpdate: (config: JsonObject) => unknown;
  readonly #log: Log;
  readonly #methods: ReadonlyMap<string, (params: JsonObject) => unknown>;

  constructor(
    introduce: () => Introduction,
    describe: () => JsonObject,
    settings: Settings,
    onConfigUpdate: (config: JsonObject) => unknown,
    log: Log,
  ) {
    this.#introduce = introduce;
    this.#settings = settings;
    this.#onConfigUpdate = onConfigUpdate;
    this.#log = log;
    this.#methods = new Map<string, (params: JsonObject) => unknown>([
      ["describe", () => describe()],
      ["initialize", (params) => this.#initialize(params)],
      ["initialized", () => this.#initialized()],
      ["ping", () => OK],
      ["config.update", (params) => this.#updateConfig(params)],
      ["projects.activated", (params) => this.#activateProject(params)],
      ["projects.deactivated", (params) => this.#deactivateProject(params)],
      ["system.rate_limited", (params) => this.#rateLimited(params)],
    ]);
  }

  owns(method: string): boolean {
    return this.#methods.has(method);
  }

  /** The result of one of these methods. */
  async serve(method: string, params: JsonObject): Promise<unknown> {
    // A program is also asked for its declarations when its manifest does not fit it yet, so without a handshake.
    if (this.phase === "new" && method !== "initialize" && method !== "describe") {
      throw new NotInitialized();
    }
    return await this.#methods.get(method)?.(params);
  }

  #initialize(params: JsonObject): JsonObject {
    const about = this.#introduce();
    if (this.phase !== "new") {
      throw new PluginFault("initialize was already answered", undefined, INVALID_REQUEST);
    }
    if ((params["plugin_name"] ?? about.name) !== about.name) {
      throw new InvalidParams(`this is ${about.name}, not ${String(params["plugin_name"]).slice(0, 64)}`);
    }
    this.phase = "initializing";
    // A host of another API version is answered too: it then names both versions to the person who has to choose.
    return {
      name: about.name,
      version: about.version,
      api_version: API_VERSION,
      methods: about.methods,
      notifications: about.notifications,
      tools: about.tools,
      capabilities_used: about.capabilitiesUsed,
      features: FEATURES,
    };
  }

  #initialized(): void {
    this.phase = "running";
  }

  async #updateConfig(params: JsonObject): Promise<JsonObject> {
    const config = params["config"];
    if (!isObject(config)) {
      throw new ConfigInvalid("config must be an object");
    }
    await this.#onConfigUpdate(config);
    this.#settings.config = config;
    return OK;
  }

  #activateProject(params: JsonObject): JsonObject {
    const { project, config = {} } = params;
    if (typeof project !== "string" || !isObject(config)) {
      throw new InvalidParams("project must be text and config an object");
    }
    this.#settings.projects.set(project, config);
    return OK;
  }

  #deactivateProject(params: JsonObject): JsonObject {
    this.#settings.projects.delete(String(params["project"]));
    return OK;
  }

  #rateLimited(params: JsonObject): JsonObject {
    this.#log.warning("the host drops notifications: there are too many", { limit: params["limit_per_second"] });
    return OK;
  }
}
