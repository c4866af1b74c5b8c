/** Web services, asked through the host, which checks and records each request. */
/** Needs `host:http`. What changes something is sent for a call that declares it; it bears the call's own key. */
export class Http {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /**
     * The answer of a web service.
     *
     * @throws CapabilityDenied: the plugin may not go there, or the call does not say that it changes something outside.
     *   HostRefused: there was no answer.
     */
    async fetch(request, again = {}) {
        const asked = sendable(typeof request === "string" ? { url: request } : request);
        const given = (await this.ask(`${this.namespace}.http.fetch`, { ...again, request: asked }));
        const { base64, ...answer } = given;
        const body = typeof base64 === "string" ? { body: Buffer.from(base64, "base64") } : {};
        return { ...answer, ...body };
    }
}
/** The request as JSON has it: bytes are written as text. */
function sendable({ body, ...rest }) {
    if (body === undefined) {
        return rest;
    }
    const written = typeof body === "string" ? { body } : { base64: Buffer.from(body).toString("base64") };
    return { ...rest, ...written };
}
