// What a page does beside being read: forms that follow what is chosen, and nothing that has to be there.
"use strict";

// A field is there when others say so. The server decides it again; this only mirrors it.
function follow(form) {
  const values = (name) => {
    const found = [...form.elements].filter((one) => one.name === name);
    const chosen = found.filter((one) => (one.type !== "checkbox" && one.type !== "radio") || one.checked);
    return chosen.map((one) => one.value);
  };
  const matches = (name, wanted) => {
    const given = values(name);
    return wanted.some((one) => given.includes(one === null ? "" : String(one)) || (one === false && given.length === 0));
  };
  for (const part of form.querySelectorAll("[data-show-when]")) {
    part.hidden = !JSON.parse(part.dataset.showWhen).every(([name, wanted]) => matches(name, wanted));
  }
  for (const help of form.querySelectorAll("[data-help-of]")) {
    const chosen = form.querySelector(`#${CSS.escape(help.dataset.helpOf)} option:checked`);
    help.textContent = chosen ? chosen.dataset.help || "" : "";
  }
  for (const shown of form.querySelectorAll("output[for]")) {
    const slider = document.getElementById(shown.htmlFor.value);
    if (slider) shown.value = slider.value;
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-follows]");
  if (form) follow(form);
});
for (const form of document.querySelectorAll("form[data-follows]")) follow(form);

// A button that says what it will do before it does it.
document.addEventListener("submit", (event) => {
  const question = event.submitter && event.submitter.dataset.ask;
  if (question && !window.confirm(question)) event.preventDefault();
});

// What is shown once is copied with one press, where the browser lets a page do that.
for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard;
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  field.select();
  await navigator.clipboard.writeText(field.value);
  button.textContent = button.dataset.done;
});

// A rule that an address names is opened, where there is one.
function openNamed() {
  const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const closed = named && named.querySelector(":scope > details");
  if (closed) closed.open = true;
}
window.addEventListener("hashchange", openNamed);
openNamed();

// What is followed and has ended is not connected to again; by itself a browser would do so for ever.
document.addEventListener("over", (event) => { event.target.dataset.over = ""; });
document.addEventListener("htmx:sse:before:connection", (event) => {
  if ("over" in event.target.dataset) event.preventDefault();
});

// hx-sse connects again to a stream that was open. One that could not be opened is tried again here, just as patiently;
// what was answered instead of it is not part of the page.
const MOST_TRIES = 10, FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 60_000;
const tries = new WeakMap();
const follows = (part) => part.hasAttribute("hx-sse:connect");
const isStream = (response) => (response?.headers.get("content-type") ?? "").startsWith("text/event-stream");
const mayPass = (response) => !response || response.status >= 500 || response.status === 429;

document.addEventListener("htmx:before:response", (event) => {
  if (follows(event.target) && !isStream(event.detail.ctx.response)) event.preventDefault();
});
document.addEventListener("htmx:finally:request", (event) => {
  const part = event.target;
  const { response } = event.detail.ctx;
  if (!follows(part) || isStream(response) || !mayPass(response)) return;
  const tried = tries.get(part) ?? 0;
  if (tried >= MOST_TRIES) return;
  tries.set(part, tried + 1);
  const wait = Math.min(FIRST_WAIT_MS * 2 ** tried, LONGEST_WAIT_MS) * (0.7 + 0.6 * Math.random());
  setTimeout(() => {
    if (part.isConnected) htmx.ajax("GET", part.getAttribute("hx-sse:connect"), { source: part });
  }, wait);
});

// A form that is being filled in stays as it is while the page around it changes.
if (window.htmx) htmx.config.morphSkip = "[data-kept]";

// On a narrow screen the current page may be outside the visible part of the list.
for (const one of document.querySelectorAll("nav [aria-current=page]")) {
  for (const list of [one.closest("ul"), one.closest("nav")]) {
    const beyond = one.getBoundingClientRect().left - list.getBoundingClientRect().left;
    if (list.scrollWidth > list.clientWidth) list.scrollLeft += beyond - (list.clientWidth - one.offsetWidth) / 2;
  }
}

// A table that scrolls sideways is reached by the keyboard too.
for (const table of document.querySelectorAll("main table")) {
  if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
}
// An answer counts for what is on screen: a closed row is opened first, whichever way its button was pressed.
document.addEventListener("submit", (event) => {
  const row = event.target.closest("details[data-opens-first]:not([open])");
  if (!row) return;
  event.preventDefault();
  row.open = true;
});
