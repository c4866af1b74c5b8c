/** Web services, asked through the host, which checks and records each request. */

import type { Json, JsonObject } from "./json.js";
import type { Ask } from "./storage.js";

/** A header is a text, or names a secret of the manifest that the host writes in. */
export type HeaderValue = string | { readonly secret: string; readonly prefix?: string };

/** What to ask for; one of `body` and `json` at most. */
export interface HttpRequest {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, HeaderValue>>;
  readonly body?: string | Uint8Array;
  readonly json?: Json;
  /** In seconds, with all repetitions. */
  readonly timeout?: number;
  readonly max_bytes?: number;
  readonly redirects?: boolean;
}

/** How often and after how many seconds it is tried again, where that does no harm. */
export interface Again {
  readonly retries?: number;
  readonly backoff?: number;
}

/** The answer, whatever its status. The names of headers are in lower case; the body is text where it is text. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly url: string;
  readonly attempts: number;
}

/** Needs `host:http`. What changes something is sent for a call that declares it; it bears the call's own key. */
export class Http {
  constructor(
    private readonly ask: Ask,
    private readonly namespace: string,
  ) {}

  /**
   * The answer of a web service.
   *
   * @throws CapabilityDenied: the plugin may not go there, or the call does not say that it changes something outside.
   *   HostRefused: there was no answer.
   */
  async fetch(request: string | HttpRequest, again: Again = {}): Promise<HttpAnswer> {
    const asked = sendable(typeof request === "string" ? { url: request } : request);
    const given = (await this.ask(`${this.namespace}.http.fetch`, { ...again, request: asked })) as JsonObject;
    const { base64, ...answer } = given;
    const body = typeof base64 === "string" ? { body: Buffer.from(base64, "base64") } : {};
    return { ...answer, ...body } as unknown as HttpAnswer;
  }
}

/** The request as JSON has it: bytes are written as text. */
function sendable({ body, ...rest }: HttpRequest): JsonObject {
  if (body === undefined) {
    return rest as unknown as JsonObject;
  }
  const written = typeof body === "string" ? { body } : { base64: Buffer.from(body).toString("base64") };
  return { ...rest, ...written } as unknown as JsonObject;
}
