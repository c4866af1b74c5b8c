/** JSON values by key that the host keeps for the plugin: for a while (`cache`), or for good (`keyvalue`). */

import type { Json, JsonObject } from "./json.js";
import type { Ask } from "./storage.js";

/**
 * Values that may be gone at any time. Needs `host:cache`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
export class Cache {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /** The value, or undefined if there is none any more. */
  async get(key: string): Promise<Json | undefined> {
    return found(await this.ask(`${this.namespace}.cache.get`, { key }));
  }

  /** Keep a value for so many seconds, or as long as the host thinks right. */
  async set(key: string, value: Json, ttl?: number): Promise<void> {
    await this.ask(`${this.namespace}.cache.set`, { key, value, ...(ttl === undefined ? {} : { ttl }) });
  }

  async delete(key: string): Promise<void> {
    await this.ask(`${this.namespace}.cache.delete`, { key });
  }
}

/**
 * Values that outlive the plugin's process and the host's. Needs `host:storage`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
export class KeyValue {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /** The value, or undefined if there is none. */
  async get(key: string): Promise<Json | undefined> {
    return found(await this.ask(`${this.namespace}.keyvalue.get`, { key }));
  }

  /** Keep a value; it is durable when this resolves. */
  async put(key: string, value: Json): Promise<void> {
    await this.ask(`${this.namespace}.keyvalue.put`, { key, value });
  }

  async delete(key: string): Promise<void> {
    await this.ask(`${this.namespace}.keyvalue.delete`, { key });
  }

  /** All keys that begin so, page by page. */
  async *keys(prefix = ""): AsyncGenerator<string, void, undefined> {
    for (let after: Json | undefined = ""; typeof after === "string"; ) {
      const page = (await this.ask(`${this.namespace}.keyvalue.list`, { prefix, after })) as JsonObject;
      yield* page["keys"] as readonly string[];
      after = page["next"];
    }
  }
}

function found(answer: Json): Json | undefined {
  const { value, found } = answer as JsonObject;
  return found === true ? value : undefined;
}
