// A time is chosen on a chart by dragging over it, or by keys; then the page of that time is opened. Without
// this script the times above the charts are the choice.
"use strict";

(() => {
  // What arrows move and the pointer paints: one over each chart, made when the chart is there.
  function layer(plot) {
    const made = document.createElement("div");
    made.className = "mcp-brush";
    made.tabIndex = 0;
    made.setAttribute("role", "slider");
    made.setAttribute("aria-label", `A time of ${plot.closest("figure").querySelector("figcaption").textContent}`);
    const chosen = document.createElement("span");
    chosen.className = "mcp-brush-chosen";
    made.append(chosen);
    plot.append(made);
    const last = columns(plot).length - 1;
    made.setAttribute("aria-valuemin", "0");
    made.setAttribute("aria-valuemax", String(last));
    say(plot, made, last, last);
  }

  function columns(plot) { return [...plot.querySelectorAll(".mcp-touch")]; }

  function words(column) { return column.querySelector("title").textContent; }

  function say(plot, made, from, at) {
    const all = columns(plot);
    const begin = words(all[from]).split(",")[0];
    const chosen = from === at ? "" : ` Chosen together with those from ${begin}.`;
    made.setAttribute("aria-valuenow", String(at));
    made.setAttribute("aria-valuetext", `${words(all[at])}.${chosen} Enter shows this time.`);
  }

  // The columns between two places, as a share of the width.
  function paint(plot, made, from, at) {
    const all = columns(plot).length;
    const chosen = made.firstElementChild;
    chosen.style.left = `${(Math.min(from, at) / all) * 100}%`;
    chosen.style.width = `${((Math.abs(at - from) + 1) / all) * 100}%`;
    made.dataset.from = from;
    made.dataset.at = at;
    say(plot, made, from, at);
  }

  function forget(made) {
    delete made.dataset.from;
    delete made.dataset.at;
  }

  // The last second is a part of it, as in the filters of the log.
  function open(plot, from, at) {
    const span = Number(plot.dataset.span);
    const begins = Number(plot.dataset.begins);
    const moment = (seconds) => new Date(seconds * 1000).toISOString().replace(/\.\d+Z$/, "Z");
    const since = moment(begins + Math.min(from, at) * span);
    const until = moment(begins + (Math.max(from, at) + 1) * span - 1);
    window.location.assign(plot.dataset.brush + new URLSearchParams({ since, until }));
  }

  function placeOf(plot, event) {
    const { left, width } = plot.getBoundingClientRect();
    const all = columns(plot).length;
    return Math.min(Math.max(Math.floor(((event.clientX - left) / width) * all), 0), all - 1);
  }

  function drag(down) {
    const plot = down.target instanceof Element && down.target.closest("[data-brush]");
    if (!plot || down.button !== 0) return;
    const made = plot.querySelector(".mcp-brush");
    const from = placeOf(plot, down);
    const over = new AbortController();
    const listen = (name, act) => window.addEventListener(name, act, { signal: over.signal });
    const leave = () => { over.abort(); forget(made); };
    down.preventDefault(); // It would mark text.
    paint(plot, made, from, from); // From now on the page keeps this chart.
    listen("pointermove", (event) => {
      if (event.pointerId === down.pointerId) paint(plot, made, from, placeOf(plot, event));
    });
    listen("pointerup", (event) => {
      if (event.pointerId !== down.pointerId) return;
      const at = placeOf(plot, event);
      leave();
      if (at !== from) open(plot, from, at); // One column may be a slip.
    });
    listen("pointercancel", leave);
    listen("keydown", (event) => { if (event.key === "Escape") leave(); });
  }

  function key(event) {
    const made = event.target;
    if (!(made instanceof Element) || !made.matches(".mcp-brush") || event.ctrlKey || event.metaKey || event.altKey) return;
    const plot = made.parentElement;
    const last = columns(plot).length - 1;
    const at = Number(made.dataset.at ?? last);
    const from = Number(made.dataset.from ?? at);
    const next = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: last,
      PageDown: at - 10, PageUp: at + 10 }[event.key];
    if (next !== undefined) {
      const place = Math.min(Math.max(next, 0), last);
      paint(plot, made, event.shiftKey ? from : place, place);
    } else if (event.key === "Enter" && made.dataset.at) {
      open(plot, from, at);
    } else if (event.key === "Escape" && made.dataset.at) {
      forget(made);
    } else {
      return;
    }
    event.preventDefault();
  }

  // Also into the charts that the page puts in the place of these (dashboard.js).
  function begin(within) {
    for (const plot of within.querySelectorAll("[data-brush]")) if (!plot.querySelector(".mcp-brush")) layer(plot);
    for (const hint of within.querySelectorAll("[data-brush-hint]")) hint.hidden = false;
  }

  window.mcpBrush = { begin, isUsed: (part) => part.querySelector(".mcp-brush[data-at]") !== null };
  document.addEventListener("pointerdown", drag);
  document.addEventListener("keydown", key);
  document.addEventListener("focusout", ({ target }) => { if (target.matches?.(".mcp-brush")) forget(target); });
  document.addEventListener("DOMContentLoaded", () => begin(document));
})();
