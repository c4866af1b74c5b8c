/** Secrets that the plugin declares by name. Never log one, and keep none longer than a call. */
import type { Ask } from "./storage.js";
/** Needs `host:secrets`; rejects with CapabilityDenied for a name that the manifest does not declare. */
export declare class Secrets {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** The value, of whoever the call is for or else of everybody; undefined where it is not set. */
    get(name: string): Promise<string | undefined>;
}
