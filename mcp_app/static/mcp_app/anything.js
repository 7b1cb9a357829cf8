// One box that finds anything, on every page: Ctrl-K, or "/" where the page has no search of its own. Without
// this script the page of the same address does the same.
"use strict";

(() => {
  const script = document.currentScript;
  const address = script ? new URL(script.dataset.anything ?? script.src, location.href).hash.slice(1) : "";
  if (!address || document.documentElement.dataset.mcpAnything) return;
  document.documentElement.dataset.mcpAnything = "on";
  const TYPING = 150;
  // The search that a page has of its own: there "/" leads to it (keys.js).
  const OWN = "#mcp-search, #searchbar, [role=search] input[type=search]";
  let box = null;
  let asked = 0;

  function made(tag, names, parent) {
    const element = document.createElement(tag);
    Object.assign(element, names);
    parent.append(element);
    return element;
  }

  function line(found) {
    const item = made("li", {}, box.list);
    const link = made("a", { href: found.url }, item);
    made("span", { className: "mcp-badge", textContent: found.kind }, link);
    made("bdi", { textContent: ` ${found.title} ` }, link);
    made("bdi", { className: "mcp-dim", textContent: found.note }, link);
  }

  async function search() {
    asked += 1;
    const mine = asked;
    const text = box.input.value.trim();
    let found = [];
    let failed = false;
    if (text) {
      try {
        const answer = await fetch(`${address}?${new URLSearchParams({ q: text, format: "json" })}`);
        if (!answer.ok) throw new Error(String(answer.status));
        ({ found } = await answer.json());
      } catch {
        failed = true;
      }
    }
    if (mine !== asked) return; // More was typed meanwhile.
    box.list.replaceChildren();
    found.forEach(line);
    const words = found.length === 1 ? "1 result" : `${found.length} results`;
    box.status.textContent = failed ? "The search is unavailable. Try again in a moment." : text ? words : "";
  }

  function move(event) {
    const links = [...box.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" && links.length) {
      event.preventDefault();
      links[Math.min(at + 1, links.length - 1)].focus();
    } else if (event.key === "ArrowUp" && at >= 0) {
      event.preventDefault();
      (at === 0 ? box.input : links[at - 1]).focus();
    } else if (event.key === "Escape") {
      event.preventDefault(); // It would clear the field first.
      box.dialog.close();
    } else if (event.key === "Enter" && document.activeElement === box.input && links.length) {
      event.preventDefault();
      links[0].click();
    }
  }

  // What this visitor may find is the server's to say.
  async function promise(input, bounds) {
    try {
      const answer = await fetch(`${address}?format=json`);
      const said = await answer.json();
      input.placeholder = said.promised;
      bounds.textContent = said.bounds;
    } catch {
      // The field serves without.
    }
  }

  function build() {
    const dialog = made("dialog", { className: "mcp-anything" }, document.body);
    dialog.setAttribute("aria-label", "Search");
    const input = made("input", {
      type: "search", className: "mcp-input", maxLength: 150, autocomplete: "off", spellcheck: false,
    }, dialog);
    input.setAttribute("aria-label", "Search");
    const status = made("p", { className: "mcp-dim" }, dialog);
    status.setAttribute("role", "status");
    const list = made("ul", { className: "mcp-found" }, dialog);
    box = { dialog, input, status, list };
    let typing = 0;
    input.addEventListener("input", () => {
      window.clearTimeout(typing);
      typing = window.setTimeout(search, TYPING);
    });
    const bounds = made("p", { className: "mcp-dim" }, dialog);
    promise(input, bounds);
    dialog.addEventListener("keydown", move);
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  function open() {
    if (!box) build();
    if (!box.dialog.open) box.dialog.showModal();
    box.input.select();
  }

  // A link to the page of the search opens the box instead, unless it is to be opened elsewhere.
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("a[data-anything]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open();
  });

  // Before the skin, which has a box of its own for the names of its pages.
  window.addEventListener("keydown", (event) => {
    const typed = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    const commanded = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !typed && !document.querySelector(OWN);
    if (!commanded && !slash) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    open();
  }, true);
})();
