// Built by `npm run build` in sdk/typescript from the source with SHA-256 86455de4f6fdcfd6a88a925d1049100acc5d47a8f103c75df97facdeb2898932.
/** What can stand on the wire. */
/** Whether a decoded value is an object, and no list. */
function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * What a handler throws to answer with an error, and what it meets when the host says no.
 *
 *     PluginFault            any error a handler wants to answer with
 *     ├── NoEffect           the call failed, and nothing happened
 *     ├── InvalidParams      the caller's parameters are wrong
 *     ├── ConfigInvalid      a new configuration is not acceptable; the old one stays
 *     ├── ResourceBusy       not now; the caller may try again
 *     ├── NotApplicable      the call makes no sense here, e.g. it needs a project and there is none
 *     ├── NotInitialized     a call came before the handshake was over
 *     ├── ScopeMissing       the caller lacks a permission that the handler asks for
 *     ├── Cancelled          the caller does not want the answer any more
 *     └── HostRefused        the host answered a request of ours with an error
 *         └── CapabilityDenied   because it was not granted
 *     HostGone               the host closed the pipe; the plugin is about to end
 *
 * A tool with effects that fails may have had them: the host makes the same call again only where the plugin says that
 * nothing happened. NoEffect says it, and so do InvalidParams, ResourceBusy, NotApplicable, NotInitialized and
 * ScopeMissing: throw these before anything is done. Every other error leaves it open.
 */
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;
const PLUGIN_ERROR = -32000;
const CAPABILITY_DENIED = -32001;
const NOT_INITIALIZED = -32002;
const STORAGE_ACCESS_DENIED = -32003;
const CONFIG_INVALID = -32004;
const RESOURCE_BUSY = -32005;
const NOT_APPLICABLE = -32006;
/** An error answer: a sentence for people, a JSON-RPC code, and data for machines. Own codes: -32000 to -32099. */
class PluginFault extends Error {
    code;
    data;
    /** Whether it says that nothing happened. */
    noEffect = false;
    constructor(message, data, code = PLUGIN_ERROR) {
        super(message);
        this.name = new.target.name;
        this.code = code;
        this.data = data;
    }
    /** The `error` member of an answer. */
    toError() {
        const error = { code: this.code, message: this.message };
        const data = this.noEffect ? withTheWord(this.data) : this.data;
        return data === undefined || data === null ? error : { ...error, data };
    }
}
function withTheWord(data) {
    const said = data === undefined || data === null ? {} : isObject(data) ? data : { data: data };
    return { ...said, no_effect: true };
}
/** The call failed, and nothing happened: the caller may make it again under the same key. */
class NoEffect extends PluginFault {
    noEffect = true;
}
/** The caller's parameters are wrong. */
class InvalidParams extends PluginFault {
    noEffect = true;
    constructor(message, data) {
        super(message, data, INVALID_PARAMS);
    }
}
/** A new configuration is not acceptable; the old one stays. */
class ConfigInvalid extends PluginFault {
    constructor(message, data) {
        super(message, data, CONFIG_INVALID);
    }
}
/** Not now: the caller may try again. */
class ResourceBusy extends PluginFault {
    noEffect = true;
    constructor(message, data) {
        super(message, data, RESOURCE_BUSY);
    }
}
/** The call makes no sense in this context. */
class NotApplicable extends PluginFault {
    noEffect = true;
    constructor(message, data) {
        super(message, data, NOT_APPLICABLE);
    }
}
/** A call came before the handshake was over. */
class NotInitialized extends PluginFault {
    noEffect = true;
    constructor() {
        super("the handshake is not over", undefined, NOT_INITIALIZED);
    }
}
/** The caller lacks a permission that the handler asks for. */
class ScopeMissing extends PluginFault {
    noEffect = true;
    constructor(missing) {
        super(`the caller lacks ${missing.join(", ")}`, { code: "PERMISSION_DENIED", missing_scopes: missing });
    }
}
/** The caller does not want the answer any more: clean up and let this pass. */
class Cancelled extends PluginFault {
    constructor() {
        super("cancelled");
    }
}
/** The host answered a request of ours with an error. Left uncaught, the caller gets that same error. */
class HostRefused extends PluginFault {
}
/** The host refused because the manifest does not ask for it, or it was not granted. */
class CapabilityDenied extends HostRefused {
}
/** The host closed the pipe; the plugin is about to end. */
class HostGone extends Error {
    name = "HostGone";
    constructor() {
        super("the host closed the pipe");
    }
}
/** The error that stands in an answer of the host, as an exception. */
function refusedWith(error) {
    const { code, message, data } = error;
    const said = typeof message === "string" ? message : "refused";
    const denied = code === CAPABILITY_DENIED || code === STORAGE_ACCESS_DENIED;
    return new (denied ? CapabilityDenied : HostRefused)(said, data, code);
}

/** Messages as lines: UTF-8, one JSON value a line, at most 4 MiB. Pure: bytes in, values out. */
const LIMIT = 4 * 1024 * 1024;
const NEWLINE = 10;
/** Puts lines together from pieces that may end anywhere, also inside a character. */
class LineReader {
    #begun = []; // the pieces of a line that has not ended yet
    #length = 0; // of that line; beyond the limit it is counted but not kept
    /**
     * The values of the lines that a piece completes, not judged further.
     * A PluginFault stands in the place of a line that is no JSON or too long: the lines beside it are sound.
     */
    take(piece) {
        const values = [];
        let start = 0;
        for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, start)) {
            this.#keep(piece.subarray(start, end));
            values.push(this.#finish());
            start = end + 1;
        }
        this.#keep(piece.subarray(start));
        return values;
    }
    /** The very last line, which may lack its end. */
    rest() {
        return this.#length > 0 ? [this.#finish()] : [];
    }
    #keep(piece) {
        this.#length += piece.length;
        if (this.#length > LIMIT) {
            this.#begun = [];
        }
        else if (piece.length > 0) {
            this.#begun.push(piece);
        }
    }
    #finish() {
        const pieces = this.#begun;
        const tooLong = this.#length > LIMIT;
        this.#begun = [];
        this.#length = 0;
        if (tooLong) {
            return new PluginFault(`a message may have at most ${LIMIT} bytes`, undefined, INVALID_REQUEST);
        }
        try {
            const [only] = pieces;
            const line = pieces.length === 1 && only ? only : Buffer.concat(pieces);
            return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line));
        }
        catch {
            return new PluginFault("the line is not JSON", undefined, PARSE_ERROR);
        }
    }
}
/** A message has more bytes than one may have. */
class TooLong extends RangeError {
}
/**
 * A message as its line.
 *
 * @throws TypeError, RangeError: it cannot be written as JSON, or is too long.
 */
function lineOf(message) {
    const line = JSON.stringify({ jsonrpc: "2.0", ...message });
    const length = Buffer.byteLength(line);
    if (length > LIMIT) {
        throw new TooLong(`the message has ${length} bytes; at most ${LIMIT} (4 MiB) are allowed`);
    }
    return `${line}\n`;
}

export { CAPABILITY_DENIED, Cancelled, CapabilityDenied, ConfigInvalid, HostGone, HostRefused, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, InvalidParams, LineReader, METHOD_NOT_FOUND, NoEffect, NotApplicable, NotInitialized, PARSE_ERROR, PluginFault, RESOURCE_BUSY, ResourceBusy, STORAGE_ACCESS_DENIED, ScopeMissing, TooLong, isObject, lineOf, refusedWith };
