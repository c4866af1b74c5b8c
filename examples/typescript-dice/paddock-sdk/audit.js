/** A word of the plugin's own in the host's ledger, beside the call that it serves. */
/** Every plugin has it. */
export class Audit {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** Tells whether it was kept; above 50 a second it is not. */
    async write(action, details = {}) {
        return (await this.ask(`${this.namespace}.audit.write`, { action, details }))["written"] === true;
    }
}
