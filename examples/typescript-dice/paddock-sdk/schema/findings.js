/** What is wrong with a value, and where: the words that checks use. Pure. */
/** A check's word that the value is of another type, so that further checks would say nothing of use. */
export const SKIPPED = Symbol("of another type");
export const MOST_PROBLEMS = 50;
const SHOWN = 60;
/** Every mistake in a value, at most `MOST_PROBLEMS` of them; empty if it fits. */
export function problemsOf(check, value) {
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
export function joinPath(parts) {
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
export function kindOf(value) {
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
export function shown(value) {
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
export function canonical(value) {
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
