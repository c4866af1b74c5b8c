/** A word of the plugin's own in the host's ledger, beside the call that it serves. */
import type { JsonObject } from "./json.js";
import type { Ask } from "./storage.js";
/** Every plugin has it. */
export declare class Audit {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** Tells whether it was kept; above 50 a second it is not. */
    write(action: string, details?: JsonObject): Promise<boolean>;
}
