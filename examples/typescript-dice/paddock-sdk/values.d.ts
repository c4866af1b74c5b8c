/** JSON values by key that the host keeps for the plugin: for a while (`cache`), or for good (`keyvalue`). */
import type { Json } from "./json.js";
import type { Ask } from "./storage.js";
/**
 * Values that may be gone at any time. Needs `host:cache`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
export declare class Cache {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** The value, or undefined if there is none any more. */
    get(key: string): Promise<Json | undefined>;
    /** Keep a value for so many seconds, or as long as the host thinks right. */
    set(key: string, value: Json, ttl?: number): Promise<void>;
    delete(key: string): Promise<void>;
}
/**
 * Values that outlive the plugin's process and the host's. Needs `host:storage`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
export declare class KeyValue {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** The value, or undefined if there is none. */
    get(key: string): Promise<Json | undefined>;
    /** Keep a value; it is durable when this resolves. */
    put(key: string, value: Json): Promise<void>;
    delete(key: string): Promise<void>;
    /** All keys that begin so, page by page. */
    keys(prefix?: string): AsyncGenerator<string, void, undefined>;
}
