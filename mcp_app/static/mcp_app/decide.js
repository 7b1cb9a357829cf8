// Keys of the queue of approvals: j and k move between the calls, a approves, and r refuses the current one.
"use strict";

(() => {
  const CARD = "[data-decision]";
  const PLACE = "mcp-decision";
  let leaving = false;

  const cards = () => [...document.querySelectorAll(CARD)];
  const current = () => document.activeElement?.closest(CARD) ?? null;

  function focus(card) {
    card?.focus();
    card?.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    const all = cards();
    const place = all.indexOf(current());
    focus(all[place < 0 ? 0 : Math.min(Math.max(place + step, 0), all.length - 1)]);
  }

  function press(name) {
    const card = current();
    // The first key press only selects a call, so that none is decided unseen.
    if (card) card.querySelector(`[data-${name}]`)?.click();
    else move(0);
  }

  const KEYS = { j: () => move(1), k: () => move(-1), a: () => press("approve"), r: () => press("refuse") };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || leaving || !KEYS[event.key]) return;
    if (event.target.closest("input:not([type=checkbox]), select, textarea, dialog, [contenteditable=true]")) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  // After a decision, the call that moved up into the place of the decided one is the current call.
  document.addEventListener("submit", (event) => {
    const card = event.submitter?.closest(CARD);
    if (!card) return;
    leaving = true;
    window.sessionStorage.setItem(PLACE, String(cards().indexOf(card)));
  });
  window.addEventListener("pageshow", () => { leaving = false; });
  window.addEventListener("load", () => window.setTimeout(() => {
    const place = window.sessionStorage.getItem(PLACE);
    window.sessionStorage.removeItem(PLACE);
    const all = cards();
    if (place !== null && all.length > 0) focus(all[Math.min(Number(place), all.length - 1)]);
  }));
})();
