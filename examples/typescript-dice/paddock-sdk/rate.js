/** Asking before doing something that must not be done too often. */
/** Needs `host:rate`; rejects with CapabilityDenied if the plugin was not granted it. */
export class Rate {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** Whether it may be done now. If so, it is counted. */
    async limit(bucket, { cost = 1, perMinute = 60 } = {}) {
        const answer = await this.ask(`${this.namespace}.rate.limit`, { bucket, cost, per_minute: perMinute });
        return answer;
    }
}
