// Names the time zone of the page's times in its head, and lets one choose another: the browser's or UTC. Without
// this script the page of the same address does it.
"use strict";

(() => {
  const root = document.documentElement;
  const script = document.currentScript;
  if (!script || root.dataset.mcpZone) return; // A page may have this script twice.
  const told = new URLSearchParams(new URL(script.dataset.zone ?? script.src, location.href).hash.slice(1));
  const zone = told.get("zone") || "UTC";
  root.dataset.mcpZone = zone;

  function made(tag, names, parent) {
    const element = document.createElement(tag);
    Object.assign(element, names);
    parent.append(element);
    return element;
  }

  // The zones to choose from, each once, with what it is.
  function zones() {
    const browser = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
    const found = new Map([["UTC", ""]]);
    found.set(told.get("own"), found.has(told.get("own")) ? "" : "this server's");
    found.set(browser, "this browser's");
    return found;
  }

  function addButtons(form) {
    for (const [name, what] of zones()) {
      const there = [...form.querySelectorAll("button")].find((button) => button.value === name);
      const words = what ? `${name} (${what})` : name;
      if (there) { there.textContent = words; continue; }
      const button = made("button", { type: "submit", className: "mcp-button", name: "zone", value: name, textContent: words }, form);
      if (name === zone) button.setAttribute("aria-current", "true");
    }
  }

  // On a narrow screen the zone alone is seen.
  function label(into) {
    made("span", { className: "mcp-zone-word", textContent: "Times: " }, into);
    into.append(zone);
  }

  function build() {
    for (const form of document.querySelectorAll("[data-zones]")) addButtons(form);
    const place = document.querySelector("#user-tools, #header-inner .ml-auto, #header-inner");
    if (!place) return;
    const token = document.querySelector("[name=csrfmiddlewaretoken]");
    const address = told.get("address");
    if (!address || !token) {
      label(made("span", { className: "mcp-zone mcp-dim" }, place));
      return;
    }
    const box = made("details", { className: "mcp-zone" }, place);
    label(made("summary", {}, box));
    const form = made("form", { method: "post", action: address }, box);
    made("input", { type: "hidden", name: "csrfmiddlewaretoken", value: token.value }, form);
    const next = made("input", { type: "hidden", name: "next" }, form);
    // Of a page that changes its own address, the one it has now.
    form.addEventListener("submit", () => { next.value = window.location.pathname + window.location.search + window.location.hash; });
    addButtons(form);
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !box.open) return;
      box.open = false;
      box.firstElementChild.focus();
    });
  }

  document.addEventListener("DOMContentLoaded", build);
})();
