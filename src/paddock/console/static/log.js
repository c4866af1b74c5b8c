// Follows a plugin's log: new lines as they come, until it is paused. The page is whole without it.
"use strict";
(() => {
  const log = document.getElementById("log");
  const pause = document.getElementById("log-pause");
  const state = document.getElementById("log-state");
  if (!log || !window.EventSource) return;
  const MOST = 2000; // lines that a page keeps
  const NEAR = 40; // pixels: a view this near to the end keeps following it
  let waiting = [];
  let paused = false;
  let due = false;

  const said = (words) => { if (state.textContent !== words) state.textContent = words; };
  const tell = () => said(paused ? `Paused. ${waiting.length} new.` : "Following.");

  function show() {
    due = false;
    if (paused) return tell();
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    const endInView = log.getBoundingClientRect().bottom < innerHeight + NEAR;
    const added = document.createElement("template");
    added.innerHTML = waiting.splice(0).join(""); // the server escaped each
    document.dispatchEvent(new CustomEvent("paddock:times", { detail: added.content }));
    log.append(added.content);
    while (log.children.length > MOST) log.firstElementChild.remove();
    const empty = document.getElementById("log-empty");
    if (empty && log.children.length) empty.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
    if (atEnd && endInView) showEnd();
  }

  function showEnd() {
    log.scrollTop = log.scrollHeight;
    log.scrollIntoView({ block: "nearest" }); // the newest line stands at its lower edge
  }

  const source = new EventSource(log.dataset.live);
  source.addEventListener("line", (event) => {
    waiting.push(event.data);
    if (waiting.length > MOST) waiting.shift();
    if (!due) {
      due = true;
      setTimeout(show, 50); // many lines at once are put there at once
    }
  });
  source.addEventListener("open", tell);
  source.addEventListener("error", () => {
    said(source.readyState === EventSource.CLOSED ? "No longer following. Load the page again." : "Connecting again…");
  });

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    tell();
    if (paused) return;
    show();
    showEnd();
  });
  showEnd();
})();
