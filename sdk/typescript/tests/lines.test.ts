import assert from "node:assert/strict";
import { test } from "node:test";

import { PluginFault } from "../build/modules/faults.js";
import { LIMIT, lineOf, LineReader } from "../build/modules/lines.js";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test("a line may be cut anywhere, also inside a character", () => {
  const whole = bytes('{"a":"ä猫🎲"}\n[1]\n');
  for (let cut = 0; cut <= whole.length; cut++) {
    const reader = new LineReader();
    const values = [...reader.take(whole.subarray(0, cut)), ...reader.take(whole.subarray(cut))];
    assert.deepEqual(values, [{ a: "ä猫🎲" }, [1]], `cut at ${cut}`);
    assert.deepEqual(reader.rest(), []);
  }
});

test("a byte at a time is as good as all at once", () => {
  const reader = new LineReader();
  const values = [...bytes('{"a":1}\r\n\n"x"')].flatMap((byte) => reader.take(Uint8Array.of(byte)));
  assert.deepEqual(values[0], { a: 1 });
  assert.ok(values[1] instanceof PluginFault && values[1].code === -32700, "an empty line is no JSON");
  assert.deepEqual(reader.rest(), ["x"], "the last line may lack its end");
});

test("a line that is too long is refused, not kept, and the next one is read", () => {
  const reader = new LineReader();
  for (let sent = 0; sent < 3 * LIMIT; sent += 1 << 20) {
    assert.deepEqual(reader.take(new Uint8Array(1 << 20).fill(120)), []);
  }
  const [tooLong, next] = reader.take(bytes('\n{"next":true}\n'));
  assert.ok(tooLong instanceof PluginFault && tooLong.code === -32600);
  assert.deepEqual(next, { next: true });
});

test("the longest line that may be read may be sent, and no longer one", () => {
  const envelope = lineOf({ result: "" }).length - 1;
  const longest = lineOf({ result: "x".repeat(LIMIT - envelope) });
  assert.deepEqual(new LineReader().take(bytes(longest)).length, 1);
  assert.throws(() => lineOf({ result: "x".repeat(LIMIT - envelope + 1) }), RangeError);
  assert.throws(() => lineOf({ result: "ä".repeat(LIMIT / 2) }), RangeError, "bytes count, not characters");
  assert.throws(() => lineOf({ result: 1n }), TypeError);
});
