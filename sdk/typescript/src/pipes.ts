/**
 * The two pipes that a process was started with for big bytes, and the frames on them.
 *
 * A frame is the number of a transfer and a length, four bytes each, the highest first, and then so many bytes; a length
 * of 0 ends the transfer. Frames of several transfers may alternate.
 */

import { Socket } from "node:net";

import { PluginFault } from "./faults.js";

const HEAD = 8;

interface Arriving {
  readonly pieces: Buffer[];
  ended: boolean;
  done: (() => void) | undefined;
}

export class Pipes {
  readonly #source: Socket;
  readonly #sink: Socket;
  readonly #arriving = new Map<number, Arriving>();
  #rest: Buffer = Buffer.alloc(0);
  #closed = false;

  constructor(source: number, sink: number) {
    this.#source = new Socket({ fd: source, readable: true, writable: false });
    this.#sink = new Socket({ fd: sink, readable: false, writable: true });
    this.#source.on("data", (piece: Buffer) => this.#feed(piece));
    for (const pipe of [this.#source, this.#sink]) {
      pipe.unref(); // a call that waits for bytes also waits for an answer on stdin
      pipe.on("error", () => this.#lost());
    }
    this.#source.on("end", () => this.#lost());
  }

  /** Send pieces and the end. Where the host closed the pipes this ends early: the commit says why. */
  async send(stream: number, pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
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
  async receive(stream: number): Promise<Buffer> {
    const arriving = this.#of(stream);
    if (!arriving.ended && !this.#closed) {
      await new Promise<void>((resolve) => (arriving.done = resolve));
    }
    this.#arriving.delete(stream);
    if (!arriving.ended) {
      throw new PluginFault("the host closed the pipes for artifacts");
    }
    return Buffer.concat(arriving.pieces);
  }

  #write(stream: number, piece: Uint8Array): Promise<void> {
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

  #of(stream: number): Arriving {
    const known = this.#arriving.get(stream) ?? { pieces: [], ended: false, done: undefined };
    this.#arriving.set(stream, known);
    return known;
  }

  #feed(piece: Buffer): void {
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, piece]) : piece;
    while (rest.length >= HEAD) {
      const length = rest.readUInt32BE(4);
      if (rest.length < HEAD + length) {
        break;
      }
      const arriving = this.#of(rest.readUInt32BE(0));
      if (length > 0) {
        arriving.pieces.push(Buffer.from(rest.subarray(HEAD, HEAD + length)));
      } else {
        arriving.ended = true;
        arriving.done?.();
      }
      rest = rest.subarray(HEAD + length);
    }
    this.#rest = Buffer.from(rest);
  }

  #lost(): void {
    this.#closed = true;
    for (const arriving of this.#arriving.values()) {
      arriving.done?.();
    }
  }
}

let opened: Pipes | null | undefined;

/** This process's pipes; null where it has none, as in a test. */
export function openPipes(namespace: string): Pipes | null {
  if (opened === undefined) {
    const [source, sink] = (process.env[`${namespace.toUpperCase()}_ARTIFACTS_FDS`] ?? "").split(",").map(Number);
    opened = source && sink ? new Pipes(source, sink) : null;
  }
  return opened;
}
