/** Dice as a value, and what can be said about them. Chance comes in as an argument. */
/** The dice of a text like `3d6+1`, or undefined if there are none such. */
export function parseDice(text) {
    const found = /^([0-9]*)d([0-9]+)([+-][0-9]+)?$/.exec(text);
    const dice = { count: Number(found?.[1] || 1), sides: Number(found?.[2]), plus: Number(found?.[3] ?? 0) };
    return found && dice.count >= 1 && dice.sides >= 2 ? dice : undefined;
}
/** Throw them once. `upTo(n)` gives a whole number from 1 to n. */
export function roll({ count, sides }, upTo) {
    return Array.from({ length: count }, () => upTo(sides));
}
export function total(rolls, { plus }) {
    return rolls.reduce((sum, one) => sum + one, plus);
}
/** How likely a total of at least so much is. */
export function probability({ count, sides, plus }, atLeast) {
    let chances = [1]; // of each sum so far
    for (let die = 0; die < count; die++) {
        // Each new sum is an average over the last `sides` old ones, kept as a window that moves on.
        const next = new Array(chances.length + sides).fill(0);
        let window = 0;
        for (let sum = 1; sum < next.length; sum++) {
            window += (chances[sum - 1] ?? 0) - (chances[sum - 1 - sides] ?? 0);
            next[sum] = window / sides;
        }
        chances = next;
    }
    const reached = chances.slice(Math.max(0, atLeast - plus)).reduce((sum, chance) => sum + chance, 0);
    return Math.min(1, Math.max(0, reached));
}
