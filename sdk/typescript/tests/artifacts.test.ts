import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { createPlugin, type JsonObject } from "paddock-sdk";
import { hostFor } from "paddock-sdk/testing";

/** A host that keeps artifacts, to which bytes travel in messages: a test has no pipes. */
const keeping = (kept: Map<string, Buffer>) => ({
  "artifacts.put": ({ base64 }: JsonObject) => {
    const uri = `artifact://sha256/${kept.size}`;
    kept.set(uri, Buffer.from(base64 as string, "base64"));
    return { uri };
  },
  "artifacts.get": ({ uri, offset, length }: JsonObject) => {
    const all = kept.get(uri as string) ?? Buffer.alloc(0);
    const piece = all.subarray(offset as number, (offset as number) + (length as number));
    return { base64: piece.toString("base64"), size: piece.length, total_size: all.length };
  },
  "artifacts.delete": ({ uri }: JsonObject) => ({ deleted: kept.delete(uri as string) }),
});

test("bytes and files are kept, read whole, in part and piece by piece, and let go of", async () => {
  const kept = new Map<string, Buffer>([["artifact://big", Buffer.alloc(2_500_000, "x")]]);
  const file = join(await mkdtemp(join(tmpdir(), "artifacts-")), "file");
  await writeFile(file, "in a file");
  const plugin = createPlugin({ name: "some", version: "1.0.0" });
  plugin.tool("work", async () => {
    const uris = [await plugin.artifacts.put(Buffer.from("some")), await plugin.artifacts.put(file, "text/plain")];
    const whole = await Promise.all(uris.map(async (uri) => (await plugin.artifacts.get(uri)).toString()));
    const part = (await plugin.artifacts.get(uris[1] ?? "", { offset: 3, length: 1 })).toString();
    const pieces: number[] = [];
    for await (const piece of plugin.artifacts.read("artifact://big")) {
      pieces.push(piece.length);
    }
    return { whole, part, pieces, deleted: await plugin.artifacts.delete(uris[0] ?? "") };
  });
  const host = await hostFor(plugin, { answers: keeping(kept) });

  assert.deepEqual(await host.call("work"), {
    whole: ["some", "in a file"],
    part: "a",
    pieces: [1_048_576, 1_048_576, 402_848],
    deleted: true,
  });
});

test("what fits in no message is refused in words where there are no pipes", async () => {
  const plugin = createPlugin({ name: "some", version: "1.0.0" });
  plugin.tool("work", async () => ({ uri: await plugin.artifacts.put(Buffer.alloc(2_000_000)) }));
  const host = await hostFor(plugin, { answers: keeping(new Map()) });

  await assert.rejects(host.call("work"), { message: /no pipes for artifacts, and 2000000 bytes fit in no message/ });
});
