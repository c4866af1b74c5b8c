/** JSON values by key that the host keeps for the plugin: for a while (`cache`), or for good (`keyvalue`). */
/**
 * Values that may be gone at any time. Needs `host:cache`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
export class Cache {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** The value, or undefined if there is none any more. */
    async get(key) {
        return found(await this.ask(`${this.namespace}.cache.get`, { key }));
    }
    /** Keep a value for so many seconds, or as long as the host thinks right. */
    async set(key, value, ttl) {
        await this.ask(`${this.namespace}.cache.set`, { key, value, ...(ttl === undefined ? {} : { ttl }) });
    }
    async delete(key) {
        await this.ask(`${this.namespace}.cache.delete`, { key });
    }
}
/**
 * Values that outlive the plugin's process and the host's. Needs `host:storage`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
export class KeyValue {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** The value, or undefined if there is none. */
    async get(key) {
        return found(await this.ask(`${this.namespace}.keyvalue.get`, { key }));
    }
    /** Keep a value; it is durable when this resolves. */
    async put(key, value) {
        await this.ask(`${this.namespace}.keyvalue.put`, { key, value });
    }
    async delete(key) {
        await this.ask(`${this.namespace}.keyvalue.delete`, { key });
    }
    /** All keys that begin so, page by page. */
    async *keys(prefix = "") {
        for (let after = ""; typeof after === "string";) {
            const page = (await this.ask(`${this.namespace}.keyvalue.list`, { prefix, after }));
            yield* page["keys"];
            after = page["next"];
        }
    }
}
function found(answer) {
    const { value, found } = answer;
    return found === true ? value : undefined;
}
