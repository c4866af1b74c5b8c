/** Messages as lines: UTF-8, one JSON value a line, at most 4 MiB. Pure: bytes in, values out. */
import { INVALID_REQUEST, PARSE_ERROR, PluginFault } from "./faults.js";
export const LIMIT = 4 * 1024 * 1024;
const NEWLINE = 10;
/** Puts lines together from pieces that may end anywhere, also inside a character. */
export class LineReader {
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
export class TooLong extends RangeError {
}
/**
 * A message as its line.
 *
 * @throws TypeError, RangeError: it cannot be written as JSON, or is too long.
 */
export function lineOf(message) {
    const line = JSON.stringify({ jsonrpc: "2.0", ...message });
    const length = Buffer.byteLength(line);
    if (length > LIMIT) {
        throw new TooLong(`the message has ${length} bytes; at most ${LIMIT} (4 MiB) are allowed`);
    }
    return `${line}\n`;
}
