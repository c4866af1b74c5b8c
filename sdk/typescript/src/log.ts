/** Structured log lines on stderr, one JSON object each. Stdout belongs to the protocol. */

export const LEVELS = ["debug", "info", "warning", "error"] as const;
export type Level = (typeof LEVELS)[number];

export type Fields = Readonly<Record<string, unknown>>;

/**
 * Writes what is at or above a level. Fields that are no JSON are written as their text.
 *
 * `about` is asked what stands in every line: the id of the call under way, for instance.
 */
export class Log {
  readonly #plugin: string;
  readonly #threshold: number;
  readonly #write: (line: string) => void;
  readonly #about: () => Fields;

  constructor(
    plugin: string,
    level = "info",
    write: (line: string) => void = (line) => process.stderr.write(line),
    about: () => Fields = () => ({}),
  ) {
    const known = LEVELS.indexOf(level.toLowerCase() as Level);
    this.#plugin = plugin;
    this.#threshold = known < 0 ? LEVELS.indexOf("info") : known;
    this.#write = write;
    this.#about = about;
  }

  debug(message: string, fields: Fields = {}): void {
    this.#say("debug", message, fields);
  }

  info(message: string, fields: Fields = {}): void {
    this.#say("info", message, fields);
  }

  warning(message: string, fields: Fields = {}): void {
    this.#say("warning", message, fields);
  }

  error(message: string, fields: Fields = {}): void {
    this.#say("error", message, fields);
  }

  #say(level: Level, message: string, fields: Fields): void {
    if (LEVELS.indexOf(level) < this.#threshold) {
      return;
    }
    const own = { time: new Date().toISOString(), level, plugin: this.#plugin, message };
    this.#write(`${asText({ ...this.#about(), ...fields, ...own })}\n`);
  }
}

/** JSON whatever the fields hold: a log line must never be the reason why something fails. */
function asText(record: Fields): string {
  try {
    return JSON.stringify(record, readable);
  } catch {
    // Something that refers to itself: each field on its own, as text.
    return JSON.stringify(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, String(value)])));
  }
}

function readable(_name: string, value: unknown): unknown {
  if (value instanceof Error) {
    return value.stack ?? String(value);
  }
  return typeof value === "bigint" || typeof value === "function" || typeof value === "symbol" ? String(value) : value;
}
