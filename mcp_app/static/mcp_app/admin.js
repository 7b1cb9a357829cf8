// Small comforts of our admin pages: tidy filter addresses, a preview of prompts, calls seen live. All
// pages work without them.
"use strict";

function expandAll(button) {
  const all = [...document.querySelectorAll(button.dataset.expand)];
  const open = all.some((item) => !item.open);
  for (const item of all) item.open = open;
  button.textContent = open ? "Collapse all" : "Expand all";
}

// A box above a list of boxes with one name: it selects all of them, and shows whether all or some are selected.
function openSelectAll(label) {
  const all = label.querySelector("input");
  const boxes = [...label.closest("form").querySelectorAll(`input[type=checkbox][name="${label.dataset.selectAll}"]`)];
  function show() {
    const number = boxes.filter((box) => box.checked).length;
    all.checked = number === boxes.length;
    all.indeterminate = number > 0 && !all.checked;
  }
  label.hidden = false;
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; });
  for (const box of boxes) box.addEventListener("change", show);
}

// What was asked for takes its time: say so, and do not let it be asked for twice.
function showBusy(button, words) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  button.textContent = words;
}

function dropEmptyFields(form) {
  for (const field of form.elements) {
    if (field.name && field.value === "") field.disabled = true;
  }
}

// Characters that hide, or turn the reading round, become visible marks: the same rule as the server's
// (text.py).
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e01ef}\ud800-\udfff]/u;

function appendMarked(target, text) {
  let rest = text;
  for (let found = HIDDEN.exec(rest); found; found = HIDDEN.exec(rest)) {
    const mark = document.createElement("b");
    mark.className = "mcp-mark";
    mark.textContent = `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    target.append(rest.slice(0, found.index), mark);
    rest = rest.slice(found.index + found[0].length);
  }
  target.append(rest);
}

// The same rule as the server's: each {{name}} of a declared argument is replaced once, nothing is evaluated.
function renderPrompt(template, values, target) {
  target.replaceChildren();
  const placeholder = /\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}/;
  for (const [place, piece] of template.split(placeholder).entries()) {
    if (place % 2 === 0) {
      appendMarked(target, piece);
    } else if (values.has(piece) && values.get(piece) !== "") {
      appendMarked(target, values.get(piece));
    } else {
      const mark = document.createElement("mark");
      mark.textContent = `{{${piece}}}`;
      mark.title = values.has(piece) ? "Empty until a value is given" : "Not a declared argument: stays as it is";
      target.append(mark);
    }
  }
}

function declaredArguments(field) {
  try {
    const list = JSON.parse(field.value || "[]");
    return Array.isArray(list) ? list.map((item) => String(item && item.name)).filter(Boolean) : [];
  } catch {
    return null; // Half-typed JSON: keep what was there.
  }
}

// Placeholders without an argument and names in single braces, each with a button that corrects them.
function sayOfPlaceholders(notice, template, declared) {
  const names = declaredArguments(declared) ?? [];
  const named = [...template.value.matchAll(/\{\{[ \t]*([A-Za-z_]\w{0,63})[ \t]*\}\}/g)].map((found) => found[1]);
  const missing = [...new Set(named)].filter((name) => !names.includes(name));
  const single = [...new Set([...template.value.matchAll(/(?<!\{)\{([A-Za-z_]\w{0,63})\}(?!\})/g)].map((found) => found[1]))];
  const said = JSON.stringify([missing, single]);
  if (notice.dataset.said === said) return;
  notice.dataset.said = said;
  notice.replaceChildren();
  const offer = (words, label, act) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "mcp-button";
    button.textContent = label;
    button.addEventListener("click", act);
    const line = document.createElement("p");
    line.append(words, " ", button);
    notice.append(line);
  };
  if (single.length > 0) {
    const meant = single.map((name) => `{{${name}}}`).join(", ");
    const verb = single.length === 1 ? "is" : "are";
    offer(`${single.map((name) => `{${name}}`).join(", ")} ${verb} plain text. Did you mean ${meant}?`, `Replace with ${meant}`, () => {
      template.value = template.value.replace(/(?<!\{)\{([A-Za-z_]\w{0,63})\}(?!\})/g, "{{$1}}");
      template.dispatchEvent(new Event("input"));
    });
  }
  if (missing.length > 0) {
    offer(`Missing arguments: ${missing.join(", ")}.`, "Add arguments", () => {
      let list = [];
      try { list = JSON.parse(declared.value || "[]"); } catch { /* What is half typed is replaced. */ }
      const added = missing.map((name) => ({ name, description: "", required: true }));
      declared.value = JSON.stringify([...(Array.isArray(list) ? list : []), ...added], null, 2);
      declared.dispatchEvent(new CustomEvent("written"));
      declared.dispatchEvent(new Event("input"));
    });
  }
  notice.hidden = !notice.hasChildNodes();
}

function startPreview(panel) {
  const template = document.getElementById("id_template");
  const declared = document.getElementById("id_arguments");
  if (!template || !declared) return;
  const inputs = panel.querySelector("[data-preview-values]");
  const output = panel.querySelector("[data-preview-output]");
  const values = new Map();
  let names = [];
  const notice = panel.querySelector("[data-preview-notice]");
  const show = () => {
    renderPrompt(template.value, values, output);
    sayOfPlaceholders(notice, template, declared);
    panel.hidden = !template.value && notice.hidden;
  };
  const refresh = () => {
    const next = declaredArguments(declared);
    if (next !== null && next.join("\n") !== names.join("\n")) {
      names = next;
      for (const name of [...values.keys()]) if (!names.includes(name)) values.delete(name);
      inputs.replaceChildren(...names.map((name) => valueField(name, values, show)));
    }
    show();
  };
  template.addEventListener("input", refresh);
  declared.addEventListener("input", refresh);
  refresh();
}

function valueField(name, values, show) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  if (!values.has(name)) values.set(name, "");
  input.className = "mcp-input";
  input.value = values.get(name);
  input.addEventListener("input", () => { values.set(name, input.value); show(); });
  label.append(name, input);
  return label;
}

// A running call is looked at each second until it is over; then the page is loaded once more, with the answer.
const LIVE_EVERY = 1000;
const LIVE_SLOWEST = 15000;
const LIVE_LINES = 500;

class LiveCall {
  constructor(panel) {
    this.panel = panel;
    this.after = panel.dataset.liveAfter;
    this.pause = LIVE_EVERY;
    // A reload would cut off the way to where a button or a link leads.
    this.leaving = false;
    window.addEventListener("beforeunload", () => { this.leaving = true; });
    const list = document.querySelector("[data-live-lines]");
    list.scrollTop = list.scrollHeight;
    this.next();
  }

  next() { window.setTimeout(() => this.look(), this.pause); }

  async look() {
    if (document.hidden) { this.next(); return; }
    try {
      const address = `${this.panel.dataset.live}?after=${encodeURIComponent(this.after)}`;
      const answer = await fetch(address, { headers: { Accept: "application/json" }, redirect: "error" });
      if (answer.status >= 400 && answer.status < 500) return; // Gone, or no longer allowed: asking again will not help.
      if (!answer.ok) throw new Error(answer.status);
      const call = await answer.json();
      if (this.leaving) return;
      this.pause = LIVE_EVERY;
      // Over, or decided about by somebody: what the page offers has changed.
      if (call.over || ("liveWaits" in this.panel.dataset && !call.waits)) { window.location.reload(); return; }
      this.show(call);
    } catch {
      this.pause = Math.min(this.pause * 2, LIVE_SLOWEST); // The server restarts, or the network is away.
    }
    this.next();
  }

  show(call) {
    this.after = call.after;
    const badge = this.panel.querySelector("[data-live-state]");
    badge.textContent = call.state;
    badge.className = `mcp-badge mcp-badge-${call.tone}`;
    this.panel.querySelector("[data-live-stopping]").hidden = !call.stopping;
    for (const field of document.querySelectorAll("[data-live-text]")) field.textContent = call[field.dataset.liveText];
    const note = document.querySelector("[data-live-note]");
    note.textContent = call.note;
    note.hidden = call.note === "";
    if (call.progress) this.showProgress(call.progress);
    this.addLines(call.lines);
  }

  showProgress({ value, total, text }) {
    const bar = this.panel.querySelector("progress");
    if (value < (this.value ?? -Infinity)) return; // The row is older than what was heard on the stream.
    this.value = value;
    if (total) { bar.max = total; bar.value = Math.min(value, total); }
    this.panel.querySelector("[data-live-progress-text]").textContent = text;
    this.panel.querySelector("[data-live-progress]").hidden = false;
  }

  addLines(lines) {
    if (lines.length === 0) return;
    const list = document.querySelector("[data-live-lines]");
    list.hidden = false;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    for (const { level, text } of lines) {
      const [item, name, words] = ["li", "b", "bdi"].map((tag) => document.createElement(tag));
      name.textContent = level;
      words.textContent = text;
      item.append(name, " ", words);
      list.append(item);
    }
    while (list.children.length > LIVE_LINES) list.firstElementChild.remove();
    document.querySelector("[data-live-empty]").hidden = true;
    if (atEnd) list.scrollTop = list.scrollHeight;
  }
}

// The queue of approvals says that it has changed and does not change by itself: the row under the pointer
// must not become another one.
const QUEUE_EVERY = 5000;

async function watchQueue(note) {
  const seen = new Set(note.dataset.queueSeen.split(" ").filter(Boolean));
  try {
    if (!document.hidden) {
      const answer = await fetch(`${note.dataset.queue}?`, { headers: { Accept: "application/json" }, redirect: "error" });
      if (answer.status >= 400 && answer.status < 500) return;
      if (answer.ok) showQueue(note, seen, new Set((await answer.json()).waiting));
    }
  } catch {
    // The server restarts, or the network is away: look again later.
  }
  window.setTimeout(() => watchQueue(note), QUEUE_EVERY);
}

function showQueue(note, seen, waiting) {
  const added = [...waiting].filter((id) => !seen.has(id)).length;
  const gone = [...seen].filter((id) => !waiting.has(id)).length;
  const words = [];
  if (added) words.push(`${added} more ${added === 1 ? "call waits" : "calls wait"}.`);
  if (gone) words.push(`${gone} of these ${gone === 1 ? "waits" : "wait"} no longer.`);
  note.querySelector("[data-queue-words]").textContent = words.join(" ");
  note.hidden = words.length === 0;
}

// A switch answers where it stands: a message above the list would move every row, and the next press would
// meet another one. Whatever goes wrong is left to the button's own form, which says it.
async function switchInPlace(event) {
  const button = event.target.closest("button.mcp-switch");
  if (!button || button.dataset.byForm !== undefined) return;
  event.preventDefault();
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    const body = new URLSearchParams({
      "mcp-enabled": button.value, csrfmiddlewaretoken: button.form.elements.csrfmiddlewaretoken.value,
    });
    const headers = { Accept: "application/json" };
    const answer = await fetch(button.formAction, { method: "POST", body, headers, redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    showSwitched(button, await answer.json());
  } catch {
    button.dataset.byForm = "";
    button.click();
  }
  button.removeAttribute("aria-busy");
}

// In the place where it is said that something was switched; a switch that changed meanwhile stays as it is.
async function undoInPlace(button, { address, note }) {
  const body = new URLSearchParams({ undo: note, csrfmiddlewaretoken: button.form.elements.csrfmiddlewaretoken.value });
  const said = document.querySelector("[data-switched]");
  try {
    const answer = await fetch(address, { method: "POST", body, headers: { Accept: "application/json" }, redirect: "error" });
    const told = await answer.json();
    if (answer.ok) showSwitched(button, told);
    else said.textContent = told.text;
  } catch {
    said.textContent = "Nothing was undone. Reload the page and try again.";
  }
  button.focus();
}

function showSwitched(button, { enabled, title, at, written, relative, text, undo }) {
  button.setAttribute("aria-checked", enabled);
  button.value = enabled ? "0" : "1";
  button.title = title;
  button.firstElementChild.textContent = enabled ? "on" : "off";
  const time = button.closest("tr").querySelector(".field-updated time");
  if (time) {
    time.dateTime = at;
    time.title = written;
    time.querySelector(".mcp-exact").textContent = written;
    time.querySelector(".mcp-relative").textContent = relative;
  }
  const said = document.querySelector("[data-switched]");
  said.textContent = text;
  if (!undo) return;
  const back = document.createElement("button");
  back.type = "button";
  back.className = "mcp-button";
  back.textContent = "Undo";
  back.addEventListener("click", () => { back.disabled = true; undoInPlace(button, undo); });
  said.append(" ", back);
}

// A search field before a long list of choices. The chosen one stays, and a click of the label reaches the list.
function searchable(select) {
  const field = document.createElement("input");
  Object.assign(field, { type: "search", className: "mcp-input mcp-choice-search", placeholder: select.dataset.search, autocomplete: "off" });
  field.setAttribute("aria-label", select.dataset.search);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const option of select.options) {
      const about = `${option.parentElement.label ?? ""} ${option.text}`.toLowerCase();
      option.hidden = !option.selected && !words.every((word) => about.includes(word));
    }
    for (const group of select.querySelectorAll("optgroup")) group.hidden = [...group.children].every((option) => option.hidden);
  });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  const wrapper = select.closest(".relative, .related-widget-wrapper") ?? select;
  wrapper.before(field);
}

// Browsers before 2025 do not know the commands of buttons.
function command(event) {
  const button = event.target.closest?.("button[commandfor]");
  const dialog = button && document.getElementById(button.getAttribute("commandfor"));
  if (dialog && button.getAttribute("command") === "close") dialog.close();
  else if (dialog) dialog.showModal();
}

if (!("commandForElement" in HTMLButtonElement.prototype)) document.addEventListener("click", command);
document.addEventListener("click", switchInPlace);
document.addEventListener("DOMContentLoaded", () => {
  for (const note of document.querySelectorAll("[data-queue]")) watchQueue(note);
  for (const panel of document.querySelectorAll("[data-live]")) new LiveCall(panel);
  for (const button of document.querySelectorAll("[data-expand]")) {
    button.addEventListener("click", () => expandAll(button));
  }
  for (const label of document.querySelectorAll("[data-select-all]")) openSelectAll(label);
  for (const select of document.querySelectorAll("select[data-search]")) searchable(select);
  // A link to one message finds it open.
  const linked = document.getElementById(window.location.hash.slice(1));
  if (linked instanceof HTMLDetailsElement) linked.open = true;
  for (const form of document.querySelectorAll("form[data-drop-empty]")) {
    form.addEventListener("submit", () => dropEmptyFields(form));
  }
  for (const form of document.querySelectorAll("form[data-busy]")) {
    form.addEventListener("submit", () => showBusy(form.querySelector("[type=submit]"), form.dataset.busy));
  }
  for (const panel of document.querySelectorAll("[data-prompt-preview]")) startPreview(panel);
  // A secret is in the answer to a POST: reloading must lead to the list, not issue a second key.
  const once = document.querySelector("[data-replace-address]");
  if (once) window.history.replaceState(null, "", once.dataset.replaceAddress);
});
// The skin hides a page until it is drawn, and what is hidden gets no focus.
window.addEventListener("load", () => window.setTimeout(() => {
  if (document.activeElement === document.body) document.querySelector("form [autofocus]")?.focus();
}));
// Django's own lists of permissions have icons that are named and have no role; it makes them while it loads.
window.addEventListener("load", () => window.setTimeout(() => {
  for (const icon of document.querySelectorAll(".help-tooltip[aria-label]")) icon.setAttribute("role", "img");
}));
// The search for people is Select2's, which gives its fields no name.
window.addEventListener("load", () => window.setTimeout(() => {
  for (const field of document.querySelectorAll("select.admin-autocomplete[id]")) {
    const label = document.querySelector(`label[for="${field.id}"]`)?.textContent.trim().replace(/:$/, "");
    const drawn = field.nextElementSibling?.querySelectorAll("[role=combobox], .select2-search__field") ?? [];
    for (const part of drawn) part.setAttribute("aria-label", label || "Search");
  }
}));
// Coming back by the browser's history finds the filter fields usable again.
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-drop-empty] :disabled")) field.disabled = false;
});
