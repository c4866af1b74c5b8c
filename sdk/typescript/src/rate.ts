/** Asking before doing something that must not be done too often. */

import type { Json } from "./json.js";
import type { Ask } from "./storage.js";

/** How much it counts, and how much fits in a minute. */
export interface Cost {
  readonly cost?: number;
  readonly perMinute?: number;
}

/** Whether it may be done now, and if not, in how many seconds. */
export interface Allowance {
  readonly allowed: boolean;
  readonly retry_after: number;
}

/** Needs `host:rate`; rejects with CapabilityDenied if the plugin was not granted it. */
export class Rate {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /** Whether it may be done now. If so, it is counted. */
  async limit(bucket: string, { cost = 1, perMinute = 60 }: Cost = {}): Promise<Allowance> {
    const answer: Json = await this.ask(`${this.namespace}.rate.limit`, { bucket, cost, per_minute: perMinute });
    return answer as unknown as Allowance;
  }
}
