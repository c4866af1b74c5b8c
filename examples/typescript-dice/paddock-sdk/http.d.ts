/** Web services, asked through the host, which checks and records each request. */
import type { Json } from "./json.js";
import type { Ask } from "./storage.js";
/** A header is a text, or names a secret of the manifest that the host writes in. */
export type HeaderValue = string | {
    readonly secret: string;
    readonly prefix?: string;
};
/** What to ask for; one of `body` and `json` at most. */
export interface HttpRequest {
    readonly url: string;
    readonly method?: string;
    readonly headers?: Readonly<Record<string, HeaderValue>>;
    readonly body?: string | Uint8Array;
    readonly json?: Json;
    /** In seconds, with all repetitions. */
    readonly timeout?: number;
    readonly max_bytes?: number;
    readonly redirects?: boolean;
}
/** How often and after how many seconds it is tried again, where that does no harm. */
export interface Again {
    readonly retries?: number;
    readonly backoff?: number;
}
/** The answer, whatever its status. The names of headers are in lower case; the body is text where it is text. */
export interface HttpAnswer {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string | Uint8Array;
    readonly url: string;
    readonly attempts: number;
}
/** Needs `host:http`. What changes something is sent for a call that declares it; it bears the call's own key. */
export declare class Http {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /**
     * The answer of a web service.
     *
     * @throws CapabilityDenied: the plugin may not go there, or the call does not say that it changes something outside.
     *   HostRefused: there was no answer.
     */
    fetch(request: string | HttpRequest, again?: Again): Promise<HttpAnswer>;
}
