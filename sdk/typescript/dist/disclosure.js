/** Saying that a result would not come out the same again: it came from a model, or from the outside world. */
import { isObject } from "./json.js";
const STATUSES = ["succeeded", "failed", "in_progress"];
export function disclose(result, reasons = [], stability = "medium") {
    const nondeterminism = { is_nondeterministic: reasons.length > 0, reasons, stability };
    const whole = isObject(result) && STATUSES.includes(result["status"]);
    return whole ? { ...result, nondeterminism } : { status: "succeeded", result, nondeterminism };
}
