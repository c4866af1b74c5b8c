/** What we ask the host, and its answers. */
import type { Json, JsonObject } from "./json.js";
import type { Answer } from "./message.js";
/** The host works on so many requests of one plugin and refuses more; the others wait here for their turn. */
export declare const AT_ONCE = 32;
/** Beyond these it works on some that belong to an open transaction, whose end the others may be waiting for. */
export declare const RESERVED = 8;
export declare class Questions {
    #private;
    constructor(send: (message: object) => void);
    /**
     * The host's answer.
     *
     * @throws HostRefused: it is an error. HostGone: it will never come. TypeError, RangeError: it cannot be sent.
     */
    ask(method: string, params: JsonObject): Promise<Json>;
    /** Hand an answer to whoever asked; false if nobody did. */
    answered(answer: Answer): boolean;
    /** No answer will come any more. */
    close(): void;
}
