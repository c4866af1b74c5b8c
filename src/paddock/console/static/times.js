// Moments in the reader's own time: relative ones go on, and each says exactly when, in the reader's zone.
"use strict";
(() => {
  const REFRESH_MS = 20_000;
  const UNITS = [[86_400, "day"], [3_600, "hour"], [60, "minute"], [1, "second"]];
  const exact = new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium", timeStyle: "medium",
  });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

  // The words are those of `relative_time` in templates.py, so that nothing jumps when a page is loaded.
  function relative(then) {
    const since = (Date.now() - then) / 1000, seconds = Math.abs(since);
    let words = "a moment";
    if (seconds >= 10) {
      const [size, unit] = UNITS.find(([size]) => seconds >= size);
      const count = Math.floor(seconds / size);
      words = `${count.toLocaleString("en")} ${unit}${count === 1 ? "" : "s"}`;
    }
    return since < 0 ? `in ${words}` : `${words} ago`;
  }
  function show(root) {
    for (const one of root.querySelectorAll("time[data-time]")) {
      const then = Date.parse(one.dateTime);
      if (Number.isNaN(then)) continue;
      const whole = exact.format(then);
      const text = { relative: () => relative(then), clock: () => clock.format(then), exact: () => whole }[one.dataset.time]();
      if (one.title !== whole) one.title = whole;
      if (one.textContent !== text) one.textContent = text;
    }
  }
  // Fields that the server reads as UTC: they are shown and typed in the reader's zone, and sent in UTC.
  const pad = (number) => String(number).padStart(2, "0");
  const local = (then) => `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())}T${pad(then.getHours())}:${pad(then.getMinutes())}`;
  for (const field of document.querySelectorAll("input[data-utc]")) {
    const then = new Date(/Z|[+-]\d\d:?\d\d$/.test(field.dataset.utc) ? field.dataset.utc : `${field.dataset.utc}Z`);
    if (!Number.isNaN(then.getTime())) field.value = local(then);
    field.closest("label").querySelector("[data-zone]").textContent = "(your time)";
    field.form.addEventListener("formdata", ({ formData }) => {
      const typed = new Date(field.value);
      if (!Number.isNaN(typed.getTime())) formData.set(field.name, typed.toISOString().slice(0, 16));
    });
  }
  const refresh = () => { if (!document.hidden) show(document); };
  refresh();
  setInterval(refresh, REFRESH_MS);
  document.addEventListener("paddock:times", (event) => show(event.detail));
  for (const event of ["htmx:after:swap", "htmx:sse:after:message", "visibilitychange"]) document.addEventListener(event, refresh);
})();
