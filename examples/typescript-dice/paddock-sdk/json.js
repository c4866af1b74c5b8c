/** What can stand on the wire. */
/** Whether a decoded value is an object, and no list. */
export function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}
