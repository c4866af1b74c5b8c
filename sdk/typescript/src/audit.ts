/** A word of the plugin's own in the host's ledger, beside the call that it serves. */

import type { JsonObject } from "./json.js";
import type { Ask } from "./storage.js";

/** Every plugin has it. */
export class Audit {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /** Tells whether it was kept; above 50 a second it is not. */
  async write(action: string, details: JsonObject = {}): Promise<boolean> {
    return ((await this.ask(`${this.namespace}.audit.write`, { action, details })) as JsonObject)["written"] === true;
  }
}
