/** Asking before doing something that must not be done too often. */
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
export declare class Rate {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** Whether it may be done now. If so, it is counted. */
    limit(bucket: string, { cost, perMinute }?: Cost): Promise<Allowance>;
}
