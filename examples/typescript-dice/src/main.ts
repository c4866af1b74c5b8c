/** Three tools on the TypeScript SDK: a quick one, an exact one, and one that takes its time. */

import { randomInt } from "node:crypto";

import { createPlugin, InvalidParams } from "#paddock-sdk";

import { parseDice, probability, roll, total, type Dice } from "./dice.js";
import { ODDS, ROLL, TRY_OUT } from "./schemas.js";

const BETWEEN_LOOKS = 10_000; // rolls; a few milliseconds

const plugin = createPlugin({ name: "typescript-dice", version: "1.0.0" });
const upTo = (sides: number): number => randomInt(sides) + 1;

plugin.tool("roll", ROLL, ({ dice }) => {
  const meant = allowed(dice);
  const rolls = roll(meant, upTo);
  return { rolls, total: total(rolls, meant) };
});

plugin.tool("odds", ODDS, ({ dice, at_least }) => ({ probability: probability(allowed(dice), at_least) }));

plugin.tool("try_out", TRY_OUT, async ({ dice, times }, call) => {
  const meant = allowed(dice);
  const counts: Record<string, number> = {};
  let sum = 0;
  for (let done = 1; done <= times; done++) {
    const thrown = total(roll(meant, upTo), meant);
    counts[thrown] = (counts[thrown] ?? 0) + 1;
    sum += thrown;
    if (done % BETWEEN_LOOKS === 0) {
      call.progress(done, times);
      await call.checkpoint();
    }
  }
  return { counts, mean: sum / times };
});

function allowed(text: string): Dice {
  const dice = parseDice(text);
  const most = Number(plugin.config["most_dice"] ?? 100);
  if (!dice) {
    throw new InvalidParams("dice need at least one die, and a die two sides");
  }
  if (dice.count > most) {
    throw new InvalidParams(`at most ${most} dice may be thrown at once`);
  }
  return dice;
}

await plugin.start();
