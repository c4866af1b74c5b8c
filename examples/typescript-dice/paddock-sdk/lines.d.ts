/** Messages as lines: UTF-8, one JSON value a line, at most 4 MiB. Pure: bytes in, values out. */
export declare const LIMIT: number;
/** Puts lines together from pieces that may end anywhere, also inside a character. */
export declare class LineReader {
    #private;
    /**
     * The values of the lines that a piece completes, not judged further.
     * A PluginFault stands in the place of a line that is no JSON or too long: the lines beside it are sound.
     */
    take(piece: Uint8Array): unknown[];
    /** The very last line, which may lack its end. */
    rest(): unknown[];
}
/** A message has more bytes than one may have. */
export declare class TooLong extends RangeError {
}
/**
 * A message as its line.
 *
 * @throws TypeError, RangeError: it cannot be written as JSON, or is too long.
 */
export declare function lineOf(message: object): string;
