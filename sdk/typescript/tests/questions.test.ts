import assert from "node:assert/strict";
import { test } from "node:test";

import { AT_ONCE, Questions } from "../build/modules/questions.js";

test("what belongs to an open transaction passes the statements that wait for its end", async () => {
  const sent: { id: number; method: string }[] = [];
  const questions = new Questions((message) => sent.push(message as { id: number; method: string }));
  const others = Array.from({ length: AT_ONCE + 8 }, () => questions.ask("storage.exec", { sql: "INSERT" }));
  const commit = questions.ask("storage.commit", { transaction: "tx_1" });

  assert.equal(sent.length, AT_ONCE + 1);
  assert.equal(sent.at(-1)?.method, "storage.commit");
  questions.answered({ id: AT_ONCE + 1, result: {} });
  assert.deepEqual(await commit, {});
  for (let id = 1; id <= AT_ONCE + 9; id++) {
    questions.answered({ id, result: {} });
  }
  assert.equal((await Promise.all(others)).length, AT_ONCE + 8);
});
