/** Big bytes, which travel beside the messages and are kept by the host under an address. */

import { open } from "node:fs/promises";

import { PluginFault } from "./faults.js";
import type { JsonObject } from "./json.js";
import { openPipes } from "./pipes.js";
import type { Ask } from "./storage.js";

const PIECE = 256 * 1024;
/** What travels in a message where the process has no pipes. */
const MOST_INLINE = 1024 * 1024;
/** In a message it is there sooner. */
const SMALL = 32 * 1024;

/** Which part of an artifact; the whole where nothing is said. */
export interface Part {
  readonly offset?: number;
  readonly length?: number;
}

/**
 * What the plugin keeps, and what it was handed. Needs `host:artifacts`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it, and with PluginFault if bytes got lost on the way.
 */
export class Artifacts {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /** Keep bytes, or the content of the file at a path; gives the address. */
  async put(content: Uint8Array | string, mediaType = "application/octet-stream"): Promise<string> {
    if (typeof content !== "string") {
      return this.#put(content.length, () => piecesOf(content), mediaType);
    }
    const file = await open(content, "r");
    try {
      const { size } = await file.stat();
      const pieces = (): AsyncIterable<Uint8Array> => file.createReadStream({ autoClose: false, end: size - 1 });
      return await this.#put(size, size > 0 ? pieces : () => [], mediaType);
    } finally {
      await file.close();
    }
  }

  /** The whole, or a part of it. */
  async get(uri: string, part: Part = {}): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.read(uri, part)) {
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  /** Read it a piece at a time, for what is too big to be held at once. */
  async *read(uri: string, { offset = 0, length = Infinity }: Part = {}): AsyncGenerator<Buffer, void, undefined> {
    for (let at = offset, end = offset + length; at < end; ) {
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
  async delete(uri: string): Promise<boolean> {
    return (await this.#asked("delete", { uri }))["deleted"] === true;
  }

  async #put(size: number, pieces: () => Pieces, mediaType: string): Promise<string> {
    const pipes = openPipes(this.namespace);
    if (size <= SMALL || (!pipes && size <= MOST_INLINE)) {
      const base64 = (await allOf(pieces(), size)).toString("base64");
      return (await this.#asked("put", { base64, media_type: mediaType }))["uri"] as string;
    }
    if (!pipes) {
      throw new PluginFault(`this process has no pipes for artifacts, and ${size} bytes fit in no message`);
    }
    const stream = (await this.#asked("put", { size, media_type: mediaType }))["stream"] as number;
    await pipes.send(stream, framed(pieces()));
    return (await this.#asked("commit", { stream }))["uri"] as string;
  }

  async #piece(uri: string, offset: number, length: number): Promise<[Buffer, number]> {
    const pipes = openPipes(this.namespace);
    const inline = !pipes || length <= SMALL;
    const answer = await this.#asked("get", { uri, offset, length, ...(inline ? { inline } : {}) });
    const total = answer["total_size"] as number;
    if (!pipes || inline) {
      return [Buffer.from(answer["base64"] as string, "base64"), total];
    }
    const content = await pipes.receive(answer["stream"] as number);
    if (content.length !== answer["size"]) {
      throw new PluginFault(`of an artifact ${content.length} bytes came, and ${answer["size"]} were announced`);
    }
    return [content, total];
  }

  async #asked(operation: string, params: JsonObject): Promise<JsonObject> {
    return (await this.ask(`${this.namespace}.artifacts.${operation}`, params)) as JsonObject;
  }
}

type Pieces = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

function* piecesOf(content: Uint8Array): Generator<Uint8Array, void, undefined> {
  for (let at = 0; at < content.length; at += PIECE) {
    yield content.subarray(at, at + PIECE);
  }
}

/** Pieces that each fit in a frame. */
async function* framed(pieces: Pieces): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of pieces) {
    yield* piecesOf(piece);
  }
}

async function allOf(pieces: Pieces, size: number): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) {
    all.push(piece);
  }
  const content = Buffer.concat(all);
  if (content.length !== size) {
    throw new PluginFault("the file became shorter while it was read");
  }
  return content;
}
