/** Structured log lines on stderr, one JSON object each. Stdout belongs to the protocol. */
export const LEVELS = ["debug", "info", "warning", "error"];
/**
 * Writes what is at or above a level. Fields that are no JSON are written as their text.
 *
 * `about` is asked what stands in every line: the id of the call under way, for instance.
 */
export class Log {
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
