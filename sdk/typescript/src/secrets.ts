/** Secrets that the plugin declares by name. Never log one, and keep none longer than a call. */

import type { JsonObject } from "./json.js";
import type { Ask } from "./storage.js";

/** Needs `host:secrets`; rejects with CapabilityDenied for a name that the manifest does not declare. */
export class Secrets {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /** The value: the user's own, or else the shared one; undefined where it is not set. */
  async get(name: string): Promise<string | undefined> {
    const { value } = (await this.ask(`${this.namespace}.secrets.get`, { name })) as JsonObject;
    return typeof value === "string" ? value : undefined;
  }
}
