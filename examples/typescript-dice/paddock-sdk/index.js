// Built by `npm run build` in sdk/typescript from the source with SHA-256 86455de4f6fdcfd6a88a925d1049100acc5d47a8f103c75df97facdeb2898932.
import { isObject, PluginFault, InvalidParams, INTERNAL_ERROR, INVALID_REQUEST, HostGone, refusedWith, NotInitialized, ConfigInvalid, LineReader, ResourceBusy, Cancelled, METHOD_NOT_FOUND, HostRefused, TooLong, lineOf, NoEffect, PARSE_ERROR, INVALID_PARAMS, ScopeMissing } from './shared.js';
export { CapabilityDenied, NotApplicable } from './shared.js';
import { AsyncLocalStorage } from 'node:async_hooks';
import { open } from 'node:fs/promises';
import { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';

/** Saying that a result would not come out the same again: it came from a model, or from the outside world. */
const STATUSES = ["succeeded", "failed", "in_progress"];
function disclose(result, reasons = [], stability = "medium") {
    const nondeterminism = { is_nondeterministic: reasons.length > 0, reasons, stability };
    const whole = isObject(result) && STATUSES.includes(result["status"]);
    return whole ? { ...result, nondeterminism } : { status: "succeeded", result, nondeterminism };
}

/**
 * The two pipes that a process was started with for big bytes, and the frames on them.
 *
 * A frame is the number of a transfer and a length, four bytes each, the highest first, and then so many bytes; a length
 * of 0 ends the transfer. Frames of several transfers may alternate.
 */
const HEAD = 8;
class Pipes {
    #source;
    #sink;
    #arriving = new Map();
    #rest = Buffer.alloc(0);
    #closed = false;
    constructor(source, sink) {
        this.#source = new Socket({ fd: source, readable: true, writable: false });
        this.#sink = new Socket({ fd: sink, readable: false, writable: true });
        this.#source.on("data", (piece) => this.#feed(piece));
        for (const pipe of [this.#source, this.#sink]) {
            pipe.unref(); // a call that waits for bytes also waits for an answer on stdin
            pipe.on("error", () => this.#lost());
        }
        this.#source.on("end", () => this.#lost());
    }
    /** Send pieces and the end. Where the host closed the pipes this ends early: the commit says why. */
    async send(stream, pieces) {
        for await (const piece of pieces) {
            await this.#write(stream, piece);
        }
        await this.#write(stream, new Uint8Array());
    }
    /**
     * What comes under this number until its end.
     *
     * @throws PluginFault: nothing more will come.
     */
    async receive(stream) {
        const arriving = this.#of(stream);
        if (!arriving.ended && !this.#closed) {
            await new Promise((resolve) => (arriving.done = resolve));
        }
        this.#arriving.delete(stream);
        if (!arriving.ended) {
            throw new PluginFault("the host closed the pipes for artifacts");
        }
        return Buffer.concat(arriving.pieces);
    }
    #write(stream, piece) {
        const head = Buffer.alloc(HEAD);
        head.writeUInt32BE(stream, 0);
        head.writeUInt32BE(piece.length, 4);
        if (this.#closed) {
            return Promise.resolve();
        }
        return new Promise((resolve) => {
            this.#sink.cork();
            this.#sink.write(head);
            this.#sink.write(piece, () => resolve());
            this.#sink.uncork();
        });
    }
    #of(stream) {
        const known = this.#arriving.get(stream) ?? { pieces: [], ended: false, done: undefined };
        this.#arriving.set(stream, known);
        return known;
    }
    #feed(piece) {
        let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, piece]) : piece;
        while (rest.length >= HEAD) {
            const length = rest.readUInt32BE(4);
            if (rest.length < HEAD + length) {
                break;
            }
            const arriving = this.#of(rest.readUInt32BE(0));
            if (length > 0) {
                arriving.pieces.push(Buffer.from(rest.subarray(HEAD, HEAD + length)));
            }
            else {
                arriving.ended = true;
                arriving.done?.();
            }
            rest = rest.subarray(HEAD + length);
        }
        this.#rest = Buffer.from(rest);
    }
    #lost() {
        this.#closed = true;
        for (const arriving of this.#arriving.values()) {
            arriving.done?.();
        }
    }
}
let opened;
/** This process's pipes; null where it has none, as in a test. */
function openPipes(namespace) {
    if (opened === undefined) {
        const [source, sink] = (process.env[`${namespace.toUpperCase()}_ARTIFACTS_FDS`] ?? "").split(",").map(Number);
        opened = source && sink ? new Pipes(source, sink) : null;
    }
    return opened;
}

/** Big bytes, which travel beside the messages and are kept by the host under an address. */
const PIECE = 256 * 1024;
/** What travels in a message where the process has no pipes. */
const MOST_INLINE = 1024 * 1024;
/** In a message it is there sooner. */
const SMALL = 32 * 1024;
/**
 * What the plugin keeps, and what it was handed. Needs `host:artifacts`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it, and with PluginFault if bytes got lost on the way.
 */
class Artifacts {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** Keep bytes, or the content of the file at a path; gives the address. */
    async put(content, mediaType = "application/octet-stream") {
        if (typeof content !== "string") {
            return this.#put(content.length, () => piecesOf(content), mediaType);
        }
        const file = await open(content, "r");
        try {
            const { size } = await file.stat();
            const pieces = () => file.createReadStream({ autoClose: false, end: size - 1 });
            return await this.#put(size, size > 0 ? pieces : () => [], mediaType);
        }
        finally {
            await file.close();
        }
    }
    /** The whole, or a part of it. */
    async get(uri, part = {}) {
        const pieces = [];
        for await (const piece of this.read(uri, part)) {
            pieces.push(piece);
        }
        return Buffer.concat(pieces);
    }
    /** Read it a piece at a time, for what is too big to be held at once. */
    async *read(uri, { offset = 0, length = Infinity } = {}) {
        for (let at = offset, end = offset + length; at < end;) {
            const [piece, total] = await this.#piece(uri, at, Math.min(MOST_INLINE, end - at));
            if (piece.length === 0) {
                return;
            }
            yield piece;
            at += piece.length;
            end = Math.min(end, total);
        }
    }
    /** Keep it no longer; tells whether it was the plugin's. */
    async delete(uri) {
        return (await this.#asked("delete", { uri }))["deleted"] === true;
    }
    async #put(size, pieces, mediaType) {
        const pipes = openPipes(this.namespace);
        if (size <= SMALL || (!pipes && size <= MOST_INLINE)) {
            const base64 = (await allOf(pieces(), size)).toString("base64");
            return (await this.#asked("put", { base64, media_type: mediaType }))["uri"];
        }
        if (!pipes) {
            throw new PluginFault(`this process has no pipes for artifacts, and ${size} bytes fit in no message`);
        }
        const stream = (await this.#asked("put", { size, media_type: mediaType }))["stream"];
        await pipes.send(stream, framed(pieces()));
        return (await this.#asked("commit", { stream }))["uri"];
    }
    async #piece(uri, offset, length) {
        const pipes = openPipes(this.namespace);
        const inline = !pipes || length <= SMALL;
        const answer = await this.#asked("get", { uri, offset, length, ...(inline ? { inline } : {}) });
        const total = answer["total_size"];
        if (!pipes || inline) {
            return [Buffer.from(answer["base64"], "base64"), total];
        }
        const content = await pipes.receive(answer["stream"]);
        if (content.length !== answer["size"]) {
            throw new PluginFault(`of an artifact ${content.length} bytes came, and ${answer["size"]} were announced`);
        }
        return [content, total];
    }
    async #asked(operation, params) {
        return (await this.ask(`${this.namespace}.artifacts.${operation}`, params));
    }
}
function* piecesOf(content) {
    for (let at = 0; at < content.length; at += PIECE) {
        yield content.subarray(at, at + PIECE);
    }
}
/** Pieces that each fit in a frame. */
async function* framed(pieces) {
    for await (const piece of pieces) {
        yield* piecesOf(piece);
    }
}
async function allOf(pieces, size) {
    const all = [];
    for await (const piece of pieces) {
        all.push(piece);
    }
    const content = Buffer.concat(all);
    if (content.length !== size) {
        throw new PluginFault("the file became shorter while it was read");
    }
    return content;
}

/** A word of the plugin's own in the host's ledger, beside the call that it serves. */
/** Every plugin has it. */
class Audit {
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

/** One call as a handler sees it: who is calling, whether the caller still waits, and a way to report progress. */
/** The context and the call's token, taken out of the parameters; what stays is the handler's own. */
function takeContext(params) {
    const { _context: given, _call: token, ...own } = params;
    const fields = isObject(given) ? given : {};
    const context = {
        operator_id: text(fields["operator_id"]),
        project_id: text(fields["project_id"]),
        agent_path: text(fields["agent_path"]),
        session_id: text(fields["session_id"]),
        request_id: text(fields["request_id"]) ?? "",
        scopes: texts(fields["scopes"]),
        idempotency_key: text(fields["idempotency_key"]),
    };
    return { own, context, token: typeof token === "string" ? token : undefined };
}
function text(value) {
    return typeof value === "string" ? value : null;
}
function texts(value) {
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
/** A call that a handler is working on. */
class Underway {
    operator_id;
    project_id;
    agent_path;
    session_id;
    request_id;
    scopes;
    idempotency_key;
    id; // undefined: a notification, without a caller that waits for a result or events
    signal;
    #stopping = new AbortController();
    #token;
    #tell;
    #over = false;
    constructor(id, context, token, tell) {
        this.operator_id = context.operator_id;
        this.project_id = context.project_id;
        this.agent_path = context.agent_path;
        this.session_id = context.session_id;
        this.request_id = context.request_id;
        this.scopes = context.scopes;
        this.idempotency_key = context.idempotency_key;
        this.id = id;
        this.signal = this.#stopping.signal;
        this.#token = token;
        this.#tell = tell;
    }
    /** What names the call to the host; work that outlives its call goes on in the plugin's own name. */
    get token() {
        return this.#over ? undefined : this.#token;
    }
    progress(done, total, message) {
        this.event({
            type: "progress",
            progress: done,
            ...(total === undefined ? {} : { total }),
            ...(message === undefined ? {} : { message }),
        });
    }
    event(event) {
        if (this.#over) {
            throw new Error("the call has ended: it sends no more events");
        }
        if (this.id !== undefined) {
            this.#tell({ id: this.id, event });
        }
    }
    async checkpoint() {
        await setImmediate();
        this.signal.throwIfAborted();
    }
    /** Ask the handler to stop. */
    stop(reason) {
        this.#stopping.abort(reason);
    }
    finish() {
        this.#over = true;
    }
}

/** What is wrong with a value, and where: the words that checks use. Pure. */
/** A check's word that the value is of another type, so that further checks would say nothing of use. */
const SKIPPED = Symbol("of another type");
const MOST_PROBLEMS = 50;
const SHOWN = 60;
/** Every mistake in a value, at most `MOST_PROBLEMS` of them; empty if it fits. */
function problemsOf(check, value) {
    const problems = [];
    try {
        check(value, [], (path, message) => {
            if (problems.length < MOST_PROBLEMS) {
                problems.push({ path: joinPath(path), message });
            }
        });
    }
    catch (error) {
        if (!(error instanceof RangeError)) {
            throw error;
        }
        problems.push({ path: "", message: "nested too deeply to be checked" });
    }
    return problems;
}
/** `["items", 2, "name", "a b"]` as `items[2].name["a b"]`. */
function joinPath(parts) {
    return parts.reduce((path, part) => {
        if (typeof part === "number") {
            return `${path}[${part}]`;
        }
        if (!/^[A-Za-z_$][A-Za-z0-9_$-]{0,99}$/.test(part)) {
            return `${path}[${shown(part)}]`;
        }
        return path ? `${path}.${part}` : part;
    }, "");
}
/** The JSON type of a value. */
function kindOf(value) {
    if (value === null || value === undefined) {
        return "null"; // what JSON makes of both
    }
    if (Array.isArray(value)) {
        return "array";
    }
    if (typeof value === "number") {
        return Number.isInteger(value) ? "integer" : Number.isFinite(value) ? "number" : "null";
    }
    return typeof value;
}
/** A value in a few words: a scalar as it is, anything bigger only by its kind and size. */
function shown(value) {
    if (Array.isArray(value)) {
        return `a list of ${value.length}`;
    }
    if (typeof value === "object" && value !== null) {
        return `an object with ${Object.keys(value).length} fields`;
    }
    if (typeof value === "string") {
        return JSON.stringify(value.length > SHOWN ? `${value.slice(0, SHOWN - 1)}…` : value);
    }
    return String(value);
}
/** A text that is equal for two values exactly if JSON holds them to be the same. */
function canonical(value) {
    if (Array.isArray(value)) {
        return `[${value.map(canonical).join(",")}]`;
    }
    if (typeof value === "object" && value !== null) {
        const fields = value;
        const names = Object.keys(fields).sort();
        return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(fields[name])}`).join(",")}}`;
    }
    return JSON.stringify(value) ?? "null";
}

/** Keywords that compare a value with a limit or a shape, one check each. Pure. */
const LIMITS = {
    minimum: ofNumber((value, limit) => (value < limit ? `${value} is less than ${limit}` : "")),
    maximum: ofNumber((value, limit) => (value > limit ? `${value} is greater than ${limit}` : "")),
    exclusiveMinimum: ofNumber((value, limit) => (value <= limit ? `${value} is not greater than ${limit}` : "")),
    exclusiveMaximum: ofNumber((value, limit) => (value >= limit ? `${value} is not less than ${limit}` : "")),
    multipleOf: ofNumber((value, step) => (isMultiple(value, step) ? "" : `${value} is not a multiple of ${step}`)),
    minLength: ofSize(characters, (size, limit) => (size < limit ? `too short: ${size} characters of ${limit}` : "")),
    maxLength: ofSize(characters, (size, limit) => (size > limit ? `too long: ${size} characters of ${limit}` : "")),
    minItems: ofSize(items, (size, limit) => (size < limit ? `too few items: ${size} of ${limit}` : "")),
    maxItems: ofSize(items, (size, limit) => (size > limit ? `too many items: ${size} of ${limit}` : "")),
    minProperties: ofSize(fields$1, (size, limit) => (size < limit ? `too few fields: ${size} of ${limit}` : "")),
    maxProperties: ofSize(fields$1, (size, limit) => (size > limit ? `too many fields: ${size} of ${limit}` : "")),
    pattern: (operand, at) => {
        if (typeof operand !== "string") {
            throw new TypeError(`${at} must be text`);
        }
        const pattern = new RegExp(operand, "u");
        return (value, path, find) => typeof value !== "string" || pattern.test(value)
            ? undefined
            : find(path, `${shown(value)} does not match the pattern ${operand}`);
    },
    uniqueItems: (operand, at) => {
        if (typeof operand !== "boolean") {
            throw new TypeError(`${at} must be true or false`);
        }
        return (value, path, find) => operand && Array.isArray(value) && new Set(value.map(canonical)).size < value.length
            ? find(path, "the same item stands here twice")
            : undefined;
    },
};
function ofNumber(complaint) {
    return (operand, at) => {
        const limit = number(operand, at);
        return (value, path, find) => {
            const said = typeof value === "number" ? complaint(value, limit) : "";
            return said ? find(path, said) : undefined;
        };
    };
}
function ofSize(measure, complaint) {
    return (operand, at) => {
        const limit = number(operand, at);
        return (value, path, find) => {
            const size = measure(value);
            const said = size === undefined ? "" : complaint(size, limit);
            return said ? find(path, said) : undefined;
        };
    };
}
function number(operand, at) {
    if (typeof operand !== "number" || !Number.isFinite(operand)) {
        throw new TypeError(`${at} must be a number`);
    }
    return operand;
}
function isMultiple(value, step) {
    const times = value / step;
    return Math.abs(times - Math.round(times)) < 1e-9; // 0.3 is a multiple of 0.1, whatever a computer thinks
}
/** Characters as people and JSON Schema count them, and not as UTF-16 does. */
function characters(value) {
    return typeof value === "string" ? [...value].length : undefined;
}
function items(value) {
    return Array.isArray(value) ? value.length : undefined;
}
function fields$1(value) {
    return isObject(value) ? Object.keys(value).length : undefined;
}

/** Schemas compiled once and asked often, that tell every mistake of a value at once. Pure. */
const NOTES = new Set("$schema $comment $defs title description default examples format deprecated".split(" "));
const COMPOSED = new Set("properties required additionalProperties items anyOf oneOf allOf not $ref".split(" "));
const BASIC = new Set(["type", "enum", "const"]);
/**
 * The check that a schema asks for.
 *
 * @throws TypeError: the schema uses a keyword that is not checked here, or uses one wrongly.
 */
function compile(schema) {
    const definitions = typeof schema === "object" ? (schema.$defs ?? {}) : {};
    const scope = { definitions, compiled: new Map() };
    const check = compileIn(schema, scope, "");
    for (const name of Object.keys(definitions)) {
        reference(`#/$defs/${name}`, scope, `$defs.${name}`); // also those that nothing refers to: a mistake is one
    }
    return check;
}
function compileIn(schema, scope, at) {
    if (schema === true) {
        return () => undefined;
    }
    if (schema === false) {
        return (_value, path, find) => find(path, "nothing is allowed here");
    }
    if (!isObject(schema)) {
        throw new TypeError(`${at || "the schema"} must be an object, true or false`);
    }
    const checks = [];
    const typeFirst = Object.entries(schema).sort(([a], [b]) => Number(b === "type") - Number(a === "type"));
    for (const [keyword, operand] of typeFirst) {
        const where = below(at, keyword);
        if (BASIC.has(keyword)) {
            checks.push(basic(keyword, operand, where));
        }
        else if (Object.hasOwn(LIMITS, keyword)) {
            checks.push(LIMITS[keyword](operand, where));
        }
        else if (!COMPOSED.has(keyword) && !NOTES.has(keyword)) {
            throw new TypeError(`${where}: this keyword is not checked here; leave it to the manifest`);
        }
    }
    checks.push(...fields(schema, scope, at), ...compositions(schema, scope, at));
    const [only] = checks;
    if (checks.length === 1 && only) {
        return only;
    }
    return (value, path, find) => {
        for (const check of checks) {
            if (check(value, path, find) === SKIPPED) {
                return SKIPPED; // of another type altogether: everything else that could be said about it is noise
            }
        }
        return undefined;
    };
}
function basic(keyword, operand, at) {
    if (keyword === "const") {
        const expected = canonical(operand);
        return (value, path, find) => canonical(value) === expected ? undefined : find(path, `expected ${shown(operand)}, found ${shown(value)}`);
    }
    if (keyword === "enum") {
        const options = list(operand, at);
        const allowed = new Set(options.map(canonical));
        const listed = options.slice(0, 20).map(shown).join(", ");
        return (value, path, find) => allowed.has(canonical(value)) ? undefined : find(path, `${shown(value)} is not one of ${listed}`);
    }
    const types = typeof operand === "string" ? [operand] : list(operand, at);
    const known = ["null", "boolean", "integer", "number", "string", "array", "object"];
    if (!types.every((name) => known.includes(name))) {
        throw new TypeError(`${at} must be one of ${known.join(", ")}, or a list of them`);
    }
    const fits = new Set(types.includes("number") ? [...types, "integer"] : types);
    return (value, path, find) => {
        const kind = kindOf(value);
        if (!fits.has(kind)) {
            find(path, `expected ${types.join(" or ")}, found ${kind}`);
            return SKIPPED;
        }
        return undefined;
    };
}
function* fields(schema, scope, at) {
    const { properties = {}, required = [], additionalProperties = true, items } = schema;
    const known = new Map(Object.entries(properties).map(([name, part]) => [name, compileIn(part, scope, below(at, `properties.${name}`))]));
    const needed = list(required, below(at, "required"));
    const others = compileIn(additionalProperties, scope, below(at, "additionalProperties"));
    const ofAnObject = known.size > 0 || needed.length > 0 || additionalProperties !== true;
    yield (value, path, find) => {
        if (!ofAnObject || !isObject(value)) {
            return;
        }
        for (const name of needed) {
            if (!Object.hasOwn(value, name)) {
                find([...path, name], `missing field '${name}'`);
            }
        }
        for (const [name, part] of Object.entries(value)) {
            const check = known.get(name);
            if (!check && additionalProperties === false) {
                find([...path, name], "unknown field");
            }
            else {
                (check ?? others)(part, [...path, name], find);
            }
        }
    };
    if (items !== undefined) {
        const each = compileIn(items, scope, below(at, "items"));
        yield (value, path, find) => {
            if (Array.isArray(value)) {
                value.forEach((item, index) => each(item, [...path, index], find));
            }
        };
    }
}
function* compositions(schema, scope, at) {
    const branches = (keyword) => list(schema[keyword] ?? [], below(at, keyword)).map((part, index) => compileIn(part, scope, below(at, `${keyword}[${index}]`)));
    yield* branches("allOf");
    if (schema.anyOf) {
        const any = branches("anyOf");
        yield (value, path, find) => any.some((check) => fits(check, value)) || none(any, value, path, find);
    }
    if (schema.oneOf) {
        const one = branches("oneOf");
        yield (value, path, find) => {
            const fitting = one.filter((check) => fits(check, value)).length;
            if (fitting > 1) {
                find(path, "fits more than one of the allowed forms");
            }
            else if (fitting === 0) {
                none(one, value, path, find);
            }
        };
    }
    if (schema.not !== undefined) {
        const forbidden = compileIn(schema.not, scope, below(at, "not"));
        yield (value, path, find) => fits(forbidden, value) ? find(path, `${shown(value)} is not allowed here`) : undefined;
    }
    if (schema.$ref !== undefined) {
        yield reference(schema.$ref, scope, below(at, "$ref"));
    }
}
/** What to say when no form fits: the mistakes in the one that was meant, if only one is of the value's type. */
function none(branches, value, path, find) {
    const meant = branches.filter((check) => check(value, path, () => undefined) !== SKIPPED);
    const [only] = meant;
    if (only && meant.length === 1) {
        only(value, path, find);
    }
    else {
        find(path, `${shown(value)} fits none of the allowed forms`);
    }
}
function reference(target, scope, at) {
    const name = /^#\/\$defs\/([^/~%]+)$/.exec(target)?.[1];
    const definition = name !== undefined && Object.hasOwn(scope.definitions, name) ? scope.definitions[name] : undefined;
    if (name === undefined || definition === undefined) {
        throw new TypeError(`${at}: ${target} is not in $defs of this schema`);
    }
    if (!scope.compiled.has(name)) {
        let whole = () => undefined;
        scope.compiled.set(name, (...asked) => whole(...asked)); // first, for a definition that refers to itself
        whole = compileIn(definition, scope, `$defs.${name}`);
    }
    return scope.compiled.get(name);
}
function fits(check, value) {
    let sound = true;
    check(value, [], () => {
        sound = false;
    });
    return sound;
}
function list(operand, at) {
    if (!Array.isArray(operand)) {
        throw new TypeError(`${at} must be a list`);
    }
    return operand;
}
function below(at, part) {
    return at ? `${at}.${part}` : part;
}

/** An author's handlers: which method each serves, what it is checked with, and how one is run. */
const A_MOMENT = 5; // milliseconds; after it a stream that never waits lets others speak
/** A handler with its checks compiled. */
class Served {
    #handler;
    #input;
    #output;
    /** As it was declared. */
    schemas;
    /** @throws TypeError: a schema cannot be used. */
    constructor(schemas, handler) {
        this.#handler = handler;
        this.schemas = schemas;
        this.#input = schemas.input === undefined ? undefined : compile(schemas.input);
        this.#output = schemas.output === undefined ? undefined : compile(schemas.output);
    }
    /** The result of one call, checked on both sides. What a generator yields goes out as it comes. */
    async run(params, call) {
        const wrong = this.#input ? problemsOf(this.#input, params) : [];
        if (wrong.length > 0) {
            throw new InvalidParams(`the parameters are wrong: ${inWords(wrong)}`, { errors: wrong });
        }
        const given = this.#handler(params, call);
        const result = isSteps(given) ? await stream(given, call) : await given;
        if (this.#output) {
            // As the caller would see it: without what JSON leaves out, and with what it makes of dates.
            const broken = problemsOf(this.#output, JSON.parse(JSON.stringify(result ?? null)));
            if (broken.length > 0) {
                throw new OutputBroken(broken);
            }
        }
        return result;
    }
}
/** The handler's own mistake. The caller learns that it failed; what exactly is wrong goes to the author's log. */
class OutputBroken extends PluginFault {
    problems;
    constructor(problems) {
        super("the plugin gave something else than it declares", undefined, INTERNAL_ERROR);
        this.problems = problems;
    }
}
function inWords(problems) {
    const said = problems.slice(0, 3).map(({ path, message }) => (path ? `${path}: ${message}` : message));
    return said.join("; ") + (problems.length > 3 ? `; and ${problems.length - 3} more` : "");
}
async function stream(steps, call) {
    let lastPause = performance.now();
    try {
        let step = await steps.next();
        while (!step.done) {
            call.event({ type: "data", data: (await step.value) });
            if (performance.now() - lastPause > A_MOMENT) {
                await call.checkpoint().catch(() => undefined); // only to let others speak; what it says is asked below
                lastPause = performance.now();
            }
            // Thrown at its own yield, so that the handler can clean up, or bring what it has to an end.
            step = await (call.signal.aborted ? steps.throw(call.signal.reason) : steps.next());
        }
        return step.value;
    }
    finally {
        await steps.return(undefined);
    }
}
function isSteps(given) {
    const it = given;
    const speaks = typeof it?.next === "function" && typeof it.throw === "function" && typeof it.return === "function";
    return speaks && (Symbol.asyncIterator in it || Symbol.iterator in it);
}

/** What counts as a JSON-RPC 2.0 message. */
/** A number that could not be echoed exactly is no id. */
function isId(value) {
    return typeof value === "string" || Number.isSafeInteger(value);
}
/** The message as what it is, or undefined if it is none. */
function sound(message) {
    if (message["jsonrpc"] !== "2.0" || ("id" in message && !isId(message["id"]))) {
        return undefined;
    }
    if ("method" in message) {
        return typeof message["method"] === "string" ? message : undefined;
    }
    const error = message["error"] ?? null;
    const whole = error === null ? "result" in message : isObject(error) && Number.isInteger(error["code"]);
    return whole && "id" in message ? message : undefined;
}
/** Whether an unsound object was to be an answer. Answering one could go back and forth for ever. */
function meantAsAnswer(message) {
    return "result" in message || "error" in message;
}
/** What an unsound message is answered with, and under which id. */
function refusal(message) {
    const id = message["id"];
    const why = "not a JSON-RPC 2.0 request (batches are not accepted)";
    return [isId(id) ? id : null, new PluginFault(why, undefined, INVALID_REQUEST)];
}

/** What we ask the host, and its answers. */
/** The host works on so many requests of one plugin and refuses more; the others wait here for their turn. */
const AT_ONCE = 32;
/** Beyond these it works on some that belong to an open transaction, whose end the others may be waiting for. */
const RESERVED = 8;
class Questions {
    #send;
    #open = new Map();
    #waiting = [];
    #ofTransactions = [];
    #lastId = 0;
    #closed = false;
    constructor(send) {
        this.#send = send;
    }
    /**
     * The host's answer.
     *
     * @throws HostRefused: it is an error. HostGone: it will never come. TypeError, RangeError: it cannot be sent.
     */
    ask(method, params) {
        if (this.#closed) {
            return Promise.reject(new HostGone());
        }
        return new Promise((resolve, reject) => {
            const queue = typeof params["transaction"] === "string" ? this.#ofTransactions : this.#waiting;
            queue.push({ method, params, resolve, reject });
            this.#next();
        });
    }
    /** Hand an answer to the handler that asked; false if none did. */
    answered(answer) {
        const asked = this.#open.get(answer.id);
        if (!asked) {
            return false;
        }
        this.#open.delete(answer.id);
        if (answer.error) {
            asked.reject(refusedWith(answer.error));
        }
        else {
            asked.resolve(answer.result ?? null);
        }
        this.#next();
        return true;
    }
    /** No answer will come any more. */
    close() {
        this.#closed = true;
        const unanswered = [...this.#open.values(), ...this.#ofTransactions, ...this.#waiting];
        this.#open.clear();
        this.#ofTransactions = [];
        this.#waiting = [];
        for (const asked of unanswered) {
            asked.reject(new HostGone());
        }
    }
    #next() {
        for (let asked = this.#nextAsked(); asked; asked = this.#nextAsked()) {
            const id = ++this.#lastId;
            this.#open.set(id, asked);
            try {
                this.#send({ id, method: asked.method, params: asked.params });
            }
            catch (error) {
                this.#open.delete(id);
                asked.reject(error);
            }
        }
    }
    #nextAsked() {
        const first = this.#open.size < AT_ONCE + RESERVED ? this.#ofTransactions.shift() : undefined;
        return first ?? (this.#open.size < AT_ONCE ? this.#waiting.shift() : undefined);
    }
}

/** What the host says to every plugin: the handshake, its settings, the projects that use it. */
const API_VERSION = 1;
const FEATURES = ["call_tokens", "cancel", "events"]; // what this SDK can do beyond the plain protocol
const OK = { status: "ok" };
class System {
    phase = "new";
    #introduce;
    #settings;
    #onConfigUpdate;
    #log;
    #methods;
    constructor(introduce, describe, settings, onConfigUpdate, log) {
        this.#introduce = introduce;
        this.#settings = settings;
        this.#onConfigUpdate = onConfigUpdate;
        this.#log = log;
        this.#methods = new Map([
            ["describe", () => describe()],
            ["initialize", (params) => this.#initialize(params)],
            ["initialized", () => this.#initialized()],
            ["ping", () => OK],
            ["config.update", (params) => this.#updateConfig(params)],
            ["projects.activated", (params) => this.#activateProject(params)],
            ["projects.deactivated", (params) => this.#deactivateProject(params)],
            ["system.rate_limited", (params) => this.#rateLimited(params)],
        ]);
    }
    owns(method) {
        return this.#methods.has(method);
    }
    /** The result of one of these methods. */
    async serve(method, params) {
        // A program is also asked for its declarations when its manifest does not fit it yet, so without a handshake.
        if (this.phase === "new" && method !== "initialize" && method !== "describe") {
            throw new NotInitialized();
        }
        return await this.#methods.get(method)?.(params);
    }
    #initialize(params) {
        const about = this.#introduce();
        if (this.phase !== "new") {
            throw new PluginFault("initialize was already answered", undefined, INVALID_REQUEST);
        }
        if ((params["plugin_name"] ?? about.name) !== about.name) {
            throw new InvalidParams(`this is ${about.name}, not ${String(params["plugin_name"]).slice(0, 64)}`);
        }
        this.phase = "initializing";
        // A host of another API version is answered too: it then names both versions to the person who has to choose.
        return {
            name: about.name,
            version: about.version,
            api_version: API_VERSION,
            methods: about.methods,
            notifications: about.notifications,
            tools: about.tools,
            capabilities_used: about.capabilitiesUsed,
            features: FEATURES,
        };
    }
    #initialized() {
        this.phase = "running";
    }
    async #updateConfig(params) {
        const config = params["config"];
        if (!isObject(config)) {
            throw new ConfigInvalid("config must be an object");
        }
        await this.#onConfigUpdate(config);
        this.#settings.config = config;
        return OK;
    }
    #activateProject(params) {
        const { project, config = {} } = params;
        if (typeof project !== "string" || !isObject(config)) {
            throw new InvalidParams("project must be text and config an object");
        }
        this.#settings.projects.set(project, config);
        return OK;
    }
    #deactivateProject(params) {
        this.#settings.projects.delete(String(params["project"]));
        return OK;
    }
    #rateLimited(params) {
        this.#log.warning("the host drops notifications: there are too many", { limit: params["limit_per_second"] });
        return OK;
    }
}

/**
 * One conversation with a host: what it says is sorted on arrival, calls run side by side, answers go back.
 *
 * Calls start in the order in which they came, at most `concurrency` at a time. Requests of the host's own (settings,
 * projects) are served one after the other, and a call that came after one starts after it. Three things never wait: a
 * ping, the answer to a question of ours, and the word that a call is no longer wanted.
 */
const MOST_WAITING = 1024;
/** What the host finds wrong with a question of ours is no fault of the caller. */
const ABOUT_THE_QUESTION = [PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS];
class Conversation {
    /** Resolves when the host said shutdown or is gone, and nothing is under way any more. */
    over;
    questions;
    #parts;
    #reader = new LineReader();
    #underway = new Set();
    #waiting = [];
    #systemWork = Promise.resolve();
    #settling = 0; // requests of the host's own that are not answered yet
    #ending = false;
    #stopping = false; // the host has waited long enough for what is under way
    #finish = () => undefined;
    constructor(parts) {
        this.#parts = parts;
        this.questions = new Questions((message) => this.say(message));
        this.over = new Promise((resolve) => {
            this.#finish = resolve;
        });
    }
    // --- what arrives -------------------------------------------------------------------------------------------------
    receive(piece) {
        this.#reader.take(piece).forEach((value) => this.#sort(value));
        this.#next(); // only now: a call and its cancellation may have arrived together
    }
    /** The host will say nothing more. What it asked for is still answered. */
    closed() {
        this.#reader.rest().forEach((value) => this.#sort(value));
        this.#ending = true;
        this.questions.close();
        this.#next();
    }
    /** The host reads no more answers: there is nothing left to do. */
    lost() {
        this.#ending = true;
        this.#waiting.length = 0;
        this.questions.close();
        this.#underway.forEach((call) => call.stop(new HostGone()));
        this.#finish();
    }
    #sort(value) {
        if (value instanceof PluginFault) {
            this.#fail(null, value);
            return;
        }
        const fields = isObject(value) ? value : {};
        const message = sound(fields);
        if (!message) {
            if (meantAsAnswer(fields)) {
                this.#parts.log.warning("an unsound answer was ignored");
            }
            else {
                this.#fail(...refusal(fields));
            }
        }
        else if (!("method" in message)) {
            if (!this.questions.answered(message)) {
                this.#parts.log.warning("an answer to no question was ignored");
            }
        }
        else {
            this.#route(message);
        }
    }
    #route(request) {
        const { system, namespace } = this.#parts;
        if (request.method === "ping" && request.id !== undefined && system.phase === "running") {
            this.#pong(request.id);
        }
        else if (request.method === "shutdown") {
            this.#shutdown();
        }
        else if (request.method === `${namespace}.cancel` && request.id === undefined) {
            this.#cancel(request.params);
        }
        else if (system.owns(request.method)) {
            this.#settle(request);
        }
        else if (this.#waiting.length < MOST_WAITING) {
            this.#waiting.push(request);
        }
        else if (request.id !== undefined) {
            // Refused rather than left in the pipe, where the answers that running calls wait for would be stuck behind it.
            this.#fail(request.id, new ResourceBusy("too many calls are waiting"));
        }
    }
    /** At once: the host would take a plugin that is only busy for a dead one. */
    #pong(id) {
        try {
            this.#answer(id, OK);
        }
        catch {
            this.lost();
        }
    }
    #cancel(params) {
        const unwanted = isObject(params) ? params["id"] : undefined;
        if (!isId(unwanted)) {
            return;
        }
        for (const call of this.#underway) {
            if (call.id === unwanted) {
                call.stop(new Cancelled());
                return;
            }
        }
        const index = this.#waiting.findIndex((request) => request.id === unwanted);
        if (index >= 0) {
            this.#waiting.splice(index, 1);
            this.#fail(unwanted, new Cancelled());
        }
    }
    /** The host waits for calls before it says this: what is still under way is asked to stop, and then answered. */
    #shutdown() {
        this.#ending = this.#stopping = true;
        this.#underway.forEach((call) => call.stop(new Cancelled()));
    }
    // --- what is done about it ----------------------------------------------------------------------------------------
    #settle(request) {
        this.#settling += 1;
        this.#systemWork = this.#systemWork.then(async () => {
            await this.#serve(request, (params) => this.#parts.system.serve(request.method, takeContext(params).own));
            this.#settling -= 1;
            this.#next();
        });
    }
    #next() {
        while (this.#settling === 0 && this.#underway.size < this.#parts.concurrency) {
            const request = this.#waiting.shift();
            if (!request) {
                break;
            }
            void this.#serve(request, (params) => this.#call(request, params));
        }
        if (this.#ending && this.#settling === 0 && this.#underway.size === 0 && this.#waiting.length === 0) {
            this.#finish();
        }
    }
    async #call(request, params) {
        const { handlers, system, namespace, current } = this.#parts;
        if (system.phase !== "running") {
            throw new NotInitialized();
        }
        const served = handlers.get(request.method);
        if (!served) {
            throw new PluginFault(`there is no method '${request.method.slice(0, 128)}'`, undefined, METHOD_NOT_FOUND);
        }
        const { own, context, token } = takeContext(params);
        const call = new Underway(request.id, context, token, (event) => {
            this.say({ method: `${namespace}.event`, params: event });
        });
        if (this.#stopping) {
            call.stop(new Cancelled());
        }
        this.#underway.add(call);
        try {
            return await current.run(call, () => served.run(own, call));
        }
        finally {
            call.finish();
            this.#underway.delete(call);
        }
    }
    /** Run one request or notification, and answer it if it is a request. Never rejects. */
    async #serve(request, run) {
        const { id, method, params = {} } = request;
        try {
            if (!isObject(params)) {
                throw new InvalidParams("params must be an object");
            }
            const result = await run(params);
            if (id !== undefined) {
                this.#answer(id, result);
            }
        }
        catch (error) {
            const fault = this.#faultOf(method, error);
            if (fault && id !== undefined) {
                this.#fail(id, fault);
            }
        }
        this.#next();
    }
    /** What the caller hears of an error; undefined if no caller is left to hear it. */
    #faultOf(method, error) {
        if (error instanceof HostGone) {
            return undefined;
        }
        if (error instanceof OutputBroken) {
            this.#parts.log.error("a handler gave something else than it declares", { method, errors: error.problems });
        }
        if (error instanceof HostRefused && ABOUT_THE_QUESTION.includes(error.code)) {
            return new PluginFault(`the host refused: ${error.message}`, error.data);
        }
        if (error instanceof PluginFault) {
            return error;
        }
        if (error instanceof TooLong) {
            this.#parts.log.error("a result is too long", { method });
            return new PluginFault(error.message, undefined, INTERNAL_ERROR);
        }
        // The one place where a handler's mistake is contained: the details are the author's, not the caller's.
        const { name, stack } = error instanceof Error ? error : { name: typeof error, stack: String(error) };
        this.#parts.log.error("a handler failed", { method, stack });
        return new PluginFault(`the plugin failed (${name})`, undefined, INTERNAL_ERROR);
    }
    // --- what goes out ------------------------------------------------------------------------------------------------
    /**
     * Send one message.
     *
     * @throws TypeError, RangeError: it cannot be sent. HostGone: the host reads no more.
     */
    say(message) {
        this.#parts.send(lineOf(message));
    }
    #answer(id, result) {
        this.say({ id, result: result ?? null });
    }
    #fail(id, fault) {
        try {
            try {
                this.say({ id, error: fault.toError() });
            }
            catch (error) {
                if (error instanceof HostGone) {
                    throw error;
                }
                const kind = fault.noEffect ? NoEffect : PluginFault;
                this.say({ id, error: new kind(fault.message.slice(0, 1000), undefined, fault.code).toError() }); // without its data
            }
        }
        catch {
            this.lost();
        }
    }
}

/** Web services, asked through the host, which checks and records each request. */
/** Needs `host:http`. What changes something is sent for a call that declares it; it bears the call's own key. */
class Http {
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

/** Structured log lines on stderr, one JSON object each. Stdout belongs to the protocol. */
const LEVELS = ["debug", "info", "warning", "error"];
/**
 * Writes what is at or above a level. Fields that are no JSON are written as their text.
 *
 * `about` is asked what stands in every line: the id of the call under way, for instance.
 */
class Log {
    #plugin;
    #threshold;
    #write;
    #about;
    constructor(plugin, level = "info", write = (line) => process.stderr.write(line), about = () => ({})) {
        const known = LEVELS.indexOf(level.toLowerCase());
        this.#plugin = plugin;
        this.#threshold = known < 0 ? LEVELS.indexOf("info") : known;
        this.#write = write;
        this.#about = about;
    }
    debug(message, fields = {}) {
        this.#say("debug", message, fields);
    }
    info(message, fields = {}) {
        this.#say("info", message, fields);
    }
    warning(message, fields = {}) {
        this.#say("warning", message, fields);
    }
    error(message, fields = {}) {
        this.#say("error", message, fields);
    }
    #say(level, message, fields) {
        if (LEVELS.indexOf(level) < this.#threshold) {
            return;
        }
        const own = { time: new Date().toISOString(), level, plugin: this.#plugin, message };
        this.#write(`${asText({ ...this.#about(), ...fields, ...own })}\n`);
    }
}
/** JSON whatever the fields hold: a log line must never be the reason why something fails. */
function asText(record) {
    try {
        return JSON.stringify(record, readable);
    }
    catch {
        // Something that refers to itself: each field on its own, as text.
        return JSON.stringify(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, String(value)])));
    }
}
function readable(_name, value) {
    if (value instanceof Error) {
        return value.stack ?? String(value);
    }
    return typeof value === "bigint" || typeof value === "function" || typeof value === "symbol" ? String(value) : value;
}

/** Asking before doing something that must not be done too often. */
/** Needs `host:rate`; rejects with CapabilityDenied if the plugin was not granted it. */
class Rate {
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

/** The caller's permissions, looked at once more on the plugin's side: the host has checked them too. */
const asking = new WeakSet();
/**
 * A handler that is called only where its caller has all these scopes; for tools and methods.
 *
 *     plugin.tool("send", SEND, requiresScopes(["mail:send"], ({ to }) => …));
 *
 * The manifest names the same scopes in the tool's `required_scopes`: the host tells a plugin only of those. Without
 * one of them the call is answered with ScopeMissing.
 */
function requiresScopes(scopes, handler) {
    const guarded = (params, call) => {
        const missing = scopes.filter((scope) => !call.scopes.includes(scope));
        if (missing.length > 0) {
            throw new ScopeMissing(missing);
        }
        return handler(params, call);
    };
    asking.add(guarded);
    return guarded;
}
/** Whether a handler looks at its caller's scopes, and so has to receive them from the host. */
function asksForScopes(handler) {
    return asking.has(handler);
}

/** Secrets that the plugin declares by name. Never log one, and keep none longer than a call. */
/** Needs `host:secrets`; rejects with CapabilityDenied for a name that the manifest does not declare. */
class Secrets {
    ask;
    namespace;
    constructor(ask, namespace) {
        this.ask = ask;
        this.namespace = namespace;
    }
    /** The value: the user's own, or else the shared one; undefined where it is not set. */
    async get(name) {
        const { value } = (await this.ask(`${this.namespace}.secrets.get`, { name }));
        return typeof value === "string" ? value : undefined;
    }
}

/** The process's own pipes: stdin and stdout for the protocol alone, stderr for everything else. */
/** Stdout for our lines only: from now on what is printed lands in the log. */
function takeStdio() {
    const { stdin, stdout, stderr } = process;
    let broken = false;
    const write = stdout.write.bind(stdout);
    // `console.log` and every library that prints end up here. A child process with `stdio: "inherit"` does not.
    stdout.write = stderr.write.bind(stderr);
    return {
        send: (line) => {
            if (broken) {
                throw new HostGone();
            }
            write(line);
        },
        log: (line) => void stderr.write(line),
        feed: (conversation) => {
            stdout.on("error", () => {
                broken = true;
                conversation.lost();
            });
            stderr.on("error", () => undefined); // a log without a reader is no reason to stop
            stdin.on("data", (piece) => conversation.receive(piece));
            stdin.on("end", () => conversation.closed());
            stdin.on("error", () => conversation.closed());
        },
    };
}

/** The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back. */
class Speaker {
    ask;
    prefix;
    within;
    constructor(ask, prefix, within) {
        this.ask = ask;
        this.prefix = prefix;
        this.within = within;
    }
    async query(sql, params = []) {
        return (await this.ask(`${this.prefix}.query`, { sql, params, ...this.within }));
    }
    async exec(sql, params = []) {
        const answer = (await this.ask(`${this.prefix}.exec`, { sql, params, ...this.within }));
        return answer["rows_affected"];
    }
}
class OpenTransaction extends Speaker {
    named;
    #result = {}; // goes with the commit
    constructor(ask, prefix, named) {
        super(ask, prefix, named);
        this.named = named;
    }
    answers(result) {
        this.#result = { result };
    }
    async commit() {
        await this.ask(`${this.prefix}.commit`, { ...this.named, ...this.#result });
    }
    async rollback() {
        await this.ask(`${this.prefix}.rollback`, this.named);
    }
}
/** Each statement is a transaction of its own, unless one was begun. */
class Storage extends Speaker {
    constructor(ask, namespace) {
        super(ask, `${namespace}.storage`, {});
    }
    /** The names of the plugin's tables. */
    async schema() {
        const answer = (await this.ask(`${this.prefix}.schema`, {}));
        return answer["tables"];
    }
    /** A transaction that the caller commits or rolls back. `transaction` does it by itself. */
    async begin() {
        const { transaction } = (await this.ask(`${this.prefix}.begin`, {}));
        return new OpenTransaction(this.ask, this.prefix, { transaction: transaction ?? null });
    }
    /** Run statements together: kept when `work` is done, undone when it throws. */
    async transaction(work) {
        const begun = await this.begin();
        let result;
        try {
            result = await work(begun);
        }
        catch (error) {
            // The first error is the one to hear of; a transaction that the host has already ended cannot be undone twice.
            await begun.rollback().catch(() => undefined);
            throw error;
        }
        await begun.commit();
        return result;
    }
}

/** JSON values by key that the host keeps for the plugin: for a while (`cache`), or for good (`keyvalue`). */
/**
 * Values that may be gone at any time. Needs `host:cache`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
class Cache {
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
class KeyValue {
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

/** A plugin as its author declares it, and what its handlers may do while it runs. */
class Plugin {
    name;
    version;
    namespace;
    storage;
    keyvalue;
    cache;
    artifacts;
    rate;
    audit;
    http;
    secrets;
    #options;
    #methods = [];
    #tools = [];
    #handlers = new Map(); // by the name on the wire
    #settings = { config: {}, projects: new Map() };
    #current = new AsyncLocalStorage();
    #log;
    #system;
    #conversation;
    constructor(options) {
        this.name = options.name;
        this.version = options.version;
        this.namespace = options.namespace ?? "paddock";
        const ask = (method, params) => this.request(method, params);
        this.storage = new Storage(ask, this.namespace);
        this.keyvalue = new KeyValue(ask, this.namespace);
        this.cache = new Cache(ask, this.namespace);
        this.artifacts = new Artifacts(ask, this.namespace);
        this.rate = new Rate(ask, this.namespace);
        this.audit = new Audit(ask, this.namespace);
        this.http = new Http(ask, this.namespace);
        this.secrets = new Secrets(ask, this.namespace);
        if (!Number.isInteger(options.concurrency ?? 1) || (options.concurrency ?? 1) < 1) {
            throw new RangeError("concurrency must be a whole number from 1");
        }
        this.#options = options;
        this.#log = this.#logTo((line) => process.stderr.write(line));
        for (const [name, handler] of Object.entries(options.methods ?? {})) {
            this.method(name, handler);
        }
    }
    tool(name, ...rest) {
        this.#serve(`${this.name}.${name}`, rest);
        this.#tools.push(name);
        return this;
    }
    method(name, ...rest) {
        this.#serve(name, rest);
        this.#methods.push(name);
        return this;
    }
    /** Serve a hook: the host calls it at a moment in a session, e.g. `on_session_start`. */
    hook(name, handler) {
        if (asksForScopes(handler)) {
            throw new TypeError(`${name}: a hook has no caller, so it has no scopes`);
        }
        return this.#serve(`${this.namespace}.hook.${name}`, [handler]);
    }
    #serve(wireName, rest) {
        if (this.#conversation) {
            throw new Error(`${wireName} comes too late: the plugin is already running`);
        }
        if (this.#handlers.has(wireName)) {
            throw new Error(`${wireName} has a handler already`);
        }
        const [schemas, handler] = rest.length === 1 ? [{}, rest[0]] : rest;
        if (this.namespace === "kaged" && asksForScopes(handler)) {
            const instead = "the manifest's required_scopes are checked by the host";
            throw new TypeError(`${wireName}: a kaged plugin does not receive its caller's scopes; ${instead}`);
        }
        this.#handlers.set(wireName, new Served(schemas, handler));
        return this;
    }
    // --- what a handler may do ----------------------------------------------------------------------------------------
    /** The newest settings that were accepted. */
    get config() {
        return this.#settings.config;
    }
    /** The projects that use this plugin, each with its settings. */
    get projects() {
        return this.#settings.projects;
    }
    /** Writes to stderr, which the host keeps as the plugin's log. */
    get log() {
        return this.#log;
    }
    /** Announce something to the host, which does not answer. */
    notify(name, params = {}) {
        if (!this.#options.notifications?.includes(name)) {
            throw new Error(`'${name}' is not among the notifications of this plugin`);
        }
        this.#running().say({ method: name, params });
    }
    /**
     * Ask the host for something. Inside a handler the request counts as part of its call.
     *
     * @throws HostRefused: it answered with an error. HostGone: it closed the pipe.
     */
    async request(method, params = {}) {
        const token = this.#current.getStore()?.token;
        return this.#running().questions.ask(method, token === undefined ? params : { ...params, _call: token });
    }
    #running() {
        if (!this.#conversation) {
            throw new Error("the plugin is not running; call start()");
        }
        if (this.#system?.phase !== "running") {
            throw new Error("nothing may be said before the handshake is over: the host would end the plugin");
        }
        return this.#conversation;
    }
    // --- running ------------------------------------------------------------------------------------------------------
    /** Serve the host on stdin and stdout until it says shutdown or closes the pipe; then the process ends. */
    async start() {
        const stdio = takeStdio();
        const conversation = this.connect(stdio);
        stdio.feed(conversation);
        await conversation.over;
        process.exit(await this.shutDown());
    }
    /** Begin a conversation over other pipes than the process's own. For tests, and for other ways to carry lines. */
    connect(surroundings) {
        if (this.#conversation) {
            throw new Error("the plugin is already running");
        }
        const { concurrency = 16, onConfigUpdate = () => undefined } = this.#options;
        this.#log = this.#logTo(surroundings.log);
        this.#system = new System(() => this.#introduction(), () => this.describe(), this.#settings, onConfigUpdate, this.#log);
        this.#conversation = new Conversation({
            send: surroundings.send,
            namespace: this.namespace,
            concurrency,
            handlers: this.#handlers,
            system: this.#system,
            log: this.#log,
            current: this.#current,
        });
        return this.#conversation;
    }
    /** Say goodbye; gives the exit code. */
    async shutDown() {
        try {
            await this.#options.onShutdown?.();
        }
        catch (error) {
            if (error instanceof HostGone) {
                return 0;
            }
            // What it should have kept may be lost: the exit code must say so.
            this.#log.error("the last handler failed", { stack: error instanceof Error ? error.stack : String(error) });
            return 1;
        }
        return 0;
    }
    /** The tools and methods as a manifest declares them, as far as they are declared here. */
    describe() {
        const entry = (name, wireName) => {
            const { description, input, output } = this.#handlers.get(wireName)?.schemas ?? {};
            const declared = { description, input_schema: input, output_schema: output };
            return { name, ...JSON.parse(JSON.stringify(declared)) };
        };
        return {
            name: this.name,
            version: this.version,
            tools: this.#tools.map((name) => entry(name, `${this.name}.${name}`)),
            methods: this.#methods.map((name) => entry(name, name)),
        };
    }
    #introduction() {
        const { notifications = [], capabilitiesUsed = [] } = this.#options;
        return { name: this.name, version: this.version, methods: this.#methods, tools: this.#tools, notifications, capabilitiesUsed };
    }
    #logTo(write) {
        return new Log(this.name, process.env[`${this.namespace.toUpperCase()}_LOG_LEVEL`], write, () => {
            const request_id = this.#current.getStore()?.request_id;
            return request_id ? { request_id } : {};
        });
    }
}
/** A plugin to add tools, methods and hooks to, and then to start. */
function createPlugin(options) {
    return new Plugin(options);
}

export { Cancelled, ConfigInvalid, HostGone, HostRefused, InvalidParams, NoEffect, Plugin, PluginFault, ResourceBusy, ScopeMissing, createPlugin, disclose, requiresScopes };
