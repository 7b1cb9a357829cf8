// Sends what is tried on the API's page, with the CSRF token of the login, and opens the operation an address names.
"use strict";
(() => {
  const page = document.getElementById("mcp-api-docs");

  function asked(form) {
    const fields = [...form.querySelectorAll("[data-place]")].filter((each) => each.value !== "");
    const at = (place) => fields.filter((each) => each.dataset.place === place);
    let path = form.dataset.path;
    for (const each of at("path")) path = path.replace(`{${each.name}}`, encodeURIComponent(each.value));
    const query = new URLSearchParams(at("query").map((each) => [each.name, each.value]));
    const headers = Object.fromEntries(at("header").map((each) => [each.name, each.value]));
    const { method } = form.dataset;
    if (method !== "GET") headers["X-CSRFToken"] = page.dataset.csrf;
    const body = form.querySelector("textarea")?.value;
    const media = form.querySelector("[data-media]");
    if (body !== undefined) headers["Content-Type"] = media.value ?? media.textContent;
    return [`${path}${query.size ? `?${query}` : ""}`, { method, headers, body }];
  }

  // What the API escaped stays escaped: characters that are not seen.
  const escaped = (character) => [...Array(character.length).keys()]
    .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

  function readable(text, type) {
    if (!/json/.test(type ?? "")) return text;
    try {
      return JSON.stringify(JSON.parse(text), null, 2).replace(/[^\P{C}\n]|\p{Zl}|\p{Zp}/gu, escaped);
    } catch {
      return text;
    }
  }

  async function send(form) {
    const around = form.closest("details");
    const status = around.querySelector("[data-status]");
    const answer = around.querySelector("[data-answer]");
    const button = form.querySelector("button");
    button.setAttribute("aria-busy", "true");
    try {
      const began = performance.now();
      const [address, request] = asked(form);
      const got = await fetch(address, request);
      const text = await got.text();
      status.textContent = `${got.status} ${got.statusText} in ${Math.round(performance.now() - began)} ms`;
      status.className = `mcp-note ${got.ok ? "mcp-note-good" : "mcp-note-bad"}`;
      answer.textContent = readable(text, got.headers.get("Content-Type"));
      answer.hidden = !text;
    } catch (error) {
      status.textContent = `Not sent: ${error.message}`;
      status.className = "mcp-note mcp-note-bad";
      answer.hidden = true;
    }
    status.hidden = false;
    button.removeAttribute("aria-busy");
  }

  function open() {
    const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (named?.matches("details")) named.open = true;
  }

  for (const form of page.querySelectorAll("form")) {
    form.querySelector("[data-scripts]").hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(form);
    });
  }
  for (const operation of page.querySelectorAll(".mcp-api-operation")) {
    operation.addEventListener("toggle", () => {
      if (operation.open) history.replaceState(null, "", `#${operation.id}`);
    });
  }
  window.addEventListener("hashchange", open);
  open();
})();
