// What keys do: find with Ctrl-K, move in lists, answer, and open dialogs that are pages of their own without this.
"use strict";
(() => {
  const PALETTE_DELAY_MS = 120, OFF = "paddock.letters-off";
  const palette = document.getElementById("palette"), keys = document.getElementById("keys");
  if (!palette || !keys) return;
  const field = palette.querySelector("input"), results = palette.querySelector(".results");
  const letters = document.getElementById("letters");

  const visible = (one) => one.getClientRects().length > 0 && !one.closest("[inert]");
  const typing = (one) => one.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(one.tagName);
  const stored = (work) => { try { return work(window.localStorage); } catch { return null; } }; // may be forbidden

  // --- the palette ---
  let due = 0, asked = 0;
  async function search() {
    const number = ++asked;
    const answer = await fetch(`/find/results?q=${encodeURIComponent(field.value)}`).catch(() => null);
    if (number !== asked) return; // a later search is on its way
    if (answer?.ok) results.innerHTML = await answer.text(); // the server escaped it
    else results.textContent = "The host does not answer. Try again.";
  }
  function open(dialog) {
    if (dialog.open) return;
    for (const other of document.querySelectorAll("dialog[open]")) other.close();
    dialog.showModal();
    if (dialog !== palette) return;
    field.select();
    search();
  }
  field.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(search, PALETTE_DELAY_MS);
  });
  palette.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(due);
    await search(); // what is shown may belong to fewer letters
    const first = results.querySelector("a");
    if (first) first.click();
  });
  palette.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [field, ...results.querySelectorAll("a")];
    all[Math.max(0, Math.min(all.length - 1, all.indexOf(document.activeElement) + step))].focus();
  });
  for (const dialog of [palette, keys]) {
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-opens]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    open(document.getElementById(link.dataset.opens));
  });

  // --- rows ---
  const ROWS = "main :is([data-rows], .entries, .cards, .tiles, tbody) > *";
  const FILTERS = "[data-filter], main input:is([type=search], [name=q], [name=find])";
  const rows = () => [...document.querySelectorAll(ROWS)].filter(visible);
  const way = (row) => row.querySelector("a[href], summary, button, input:not([type=hidden])");
  function move(step) {
    const all = rows().filter(way);
    if (!all.length) return;
    const current = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[current < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, current + step))];
    way(next).focus();
    next.scrollIntoView({ block: "nearest" });
  }

  // --- answers: of the row that has the focus, or else of a page with one answer of that kind ---
  function press(key) {
    const named = (root) => [...root.querySelectorAll(`[data-key="${key}"]`)].filter((one) => visible(one) && !one.disabled);
    const all = rows(), row = all.find((one) => one.contains(document.activeElement));
    // What is answered is the row that has the focus, and never another one.
    const others = named(document).filter((one) => !row || !all.some((other) => other.contains(one)));
    const found = (row && named(row)[0]) || (others.length === 1 && others[0]);
    if (found) found.click();
    return Boolean(found);
  }
  function filter() {
    const found = [...document.querySelectorAll(FILTERS)].find(visible);
    if (found) found.focus();
    else open(palette);
  }

  letters.checked = stored((kept) => kept.getItem(OFF)) !== "1";
  letters.addEventListener("change", () => stored((kept) => (letters.checked ? kept.removeItem(OFF) : kept.setItem(OFF, "1"))));

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      open(palette);
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      const menu = document.querySelector("details.menu[open]");
      if (menu) {
        menu.open = false;
        menu.querySelector("summary").focus();
      } else if (typing(event.target) && !event.target.closest("dialog")) event.target.blur();
      return;
    }
    if (typing(event.target) || !letters.checked || document.querySelector("dialog[open]")) return;
    let done = true;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") filter();
    else if (event.key === "?") open(keys);
    else if (/^[a-z]$/.test(event.key) && !event.repeat) done = press(event.key);
    else done = false;
    if (done) event.preventDefault();
  });

  // A menu is closed by a click elsewhere.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
})();
