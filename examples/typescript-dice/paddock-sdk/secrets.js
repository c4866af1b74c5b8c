/** Secrets that the plugin declares by name. Never log one, and keep none longer than a call. */
/** Needs `host:secrets`; rejects with CapabilityDenied for a name that the manifest does not declare. */
export class Secrets {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** The value, of whoever the call is for or else of everybody; undefined where it is not set. */
    async get(name) {
        const { value } = (await this.ask(`${this.namespace}.secrets.get`, { name }));
        return typeof value === "string" ? value : undefined;
    }
}
