// Shows the request of an HTTP tool as it will be sent, and a row for each of its arguments, while the form is filled
// in. The server reads the form; this script shows what the server has read.

"use strict";

(() => {
  const form = document.querySelector("form[data-http-tool]");
  if (!form) return;
  const preview = form.querySelector("[data-http-preview]");
  const problem = form.querySelector("[data-http-problem]");
  const list = form.querySelector("[data-http-list]");
  const empty = form.querySelector("[data-http-empty]");
  const add = form.querySelector("[data-http-add]");
  const total = form.elements["rows-TOTAL_FORMS"];
  const schema = form.elements.input_schema;
  const WAIT = 400;
  let timer = 0;
  let newest = 0;
  let writes = false;

  const inputOf = (row, field) => row.querySelector(`[name$="-${field}"]`);
  const rows = () => [...list.querySelectorAll("[data-http-row]")];
  const nameOf = (row) => inputOf(row, "name").value;

  function set(row, field, value) {
    const input = inputOf(row, field);
    if (!input || input === document.activeElement) return;
    if (input.type === "checkbox") input.checked = value;
    else input.value = value;
  }

  function fill(row, given) {
    for (const [field, value] of Object.entries(given)) set(row, field, value);
    label(row);
  }

  function label(row) {
    row.setAttribute("aria-label", `Argument ${nameOf(row)}`.trim());
  }

  function added() {
    const html = empty.innerHTML.replaceAll("__prefix__", total.value);
    total.value = Number(total.value) + 1;
    list.insertAdjacentHTML("beforeend", html);
    return list.lastElementChild;
  }

  // A placeholder that is written has no place to choose.
  function settle(row, given) {
    const name = inputOf(row, "name");
    row.dataset.written = "";
    const shown = document.createElement("div");
    shown.className = "mcp-http-written";
    const code = document.createElement("code");
    code.textContent = given.name;
    const place = document.createElement("span");
    place.className = "mcp-dim";
    place.dataset.found = "";
    place.textContent = given.found;
    for (const field of ["name", "place"]) {
      const old = inputOf(row, field);
      const hidden = document.createElement("input");
      Object.assign(hidden, { type: "hidden", name: old.name, value: field === "name" ? given.name : "" });
      shown.append(hidden);
      old.closest("label").remove();
    }
    shown.append(code, " ", place);
    row.prepend(shown);
    inputOf(row, "DELETE")?.closest("label").remove();
    if (given.found === "path") for (const field of ["default", "required"]) inputOf(row, field)?.closest("label").remove();
    name.remove();
  }

  function sync(answer) {
    const known = new Map(rows().map((row) => [nameOf(row), row]));
    const names = new Set(answer.rows.map((row) => row.name));
    for (const row of rows()) {
      if ("written" in row.dataset && !names.has(nameOf(row)) && !row.contains(document.activeElement)) remove(row);
    }
    for (const given of answer.rows) {
      let row = known.get(given.name);
      if (!row) {
        row = added();
        settle(row, given);
        fill(row, given);
      } else if (answer.json) {
        fill(row, given);
      }
      const place = row.querySelector("[data-found]");
      if (place) place.textContent = given.found;
    }
    write(answer);
  }

  // Rows keep their numbers, so that Django reads them; a removed row is sent as removed.
  function remove(row) {
    const number = inputOf(row, "name").name;
    const mark = document.createElement("input");
    Object.assign(mark, { type: "hidden", name: number.replace(/name$/, "DELETE"), value: "on" });
    row.replaceWith(mark);
  }

  function write({ schema: text, json }) {
    if (schema.closest(".mcp-json-field").contains(document.activeElement)) {
      // The editor stays as it is while somebody types in it. The rows have its values now.
      if (json) form.elements.schema_seen.value = schema.value;
      return;
    }
    form.elements.schema_seen.value = text;
    if (schema.value === text) return;
    writes = true;
    schema.value = text;
    schema.dispatchEvent(new CustomEvent("written"));
    writes = false;
  }

  async function show() {
    newest += 1;
    const number = newest;
    const data = new FormData(form);
    data.set("_live", "1");
    let answer;
    try {
      const response = await fetch(form.action, { method: "POST", body: data, credentials: "same-origin" });
      if (!response.ok) return;
      answer = await response.json();
    } catch {
      return; // The preview stays as it is; the next change tries again.
    }
    if (number !== newest) return;
    preview.textContent = answer.request;
    problem.textContent = answer.problem;
    problem.hidden = !answer.problem || !form.elements.address.value;
    preview.hidden = !answer.request;
    preview.parentElement.hidden = !answer.request && problem.hidden;
    if (answer.rows) sync(answer);
  }

  // A request without a body asks for none. Entered text stays visible.
  function body() {
    const isNone = form.elements.body_mode.value === "none";
    for (const name of ["body", "content_type"]) {
      const input = form.elements[name];
      input.closest(".mcp-field").hidden = isNone && !input.value;
    }
  }

  function later() {
    if (writes) return;
    clearTimeout(timer);
    timer = setTimeout(show, WAIT);
  }

  add.hidden = false;
  add.addEventListener("click", () => {
    inputOf(added(), "name").focus();
  });
  // The script adds rows, so the spare row of the page without it goes.
  for (const row of rows()) if (!nameOf(row)) remove(row);
  list.addEventListener("change", (event) => {
    const row = event.target.closest("[data-http-row]");
    if (event.target.name.endsWith("-name")) label(row);
    if (!event.target.name.endsWith("-DELETE")) return;
    const near = row.nextElementSibling ?? row.previousElementSibling;
    remove(row);
    (near?.querySelector("input:not([type=hidden])") ?? add).focus();
    later();
  });
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  form.elements.body_mode.addEventListener("change", body);
  body();
  // The next page has a preview of its own.
  form.addEventListener("submit", () => clearTimeout(timer));
  if (form.elements.address.value) show();
})();
