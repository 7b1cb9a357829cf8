// Small comforts of our admin pages: copy buttons, tidy filter addresses, a preview of prompts. All work without them.
"use strict";

function copyFrom(button) {
  const source = document.getElementById(button.dataset.copy);
  const done = () => {
    const label = button.textContent;
    button.textContent = "Copied";
    window.setTimeout(() => { button.textContent = label; }, 1500);
  };
  if (navigator.clipboard) {
    navigator.clipboard.writeText(source.textContent).then(done, () => selectAll(source));
  } else {
    selectAll(source); // Clipboards need https or localhost; a selection is one key stroke away from a copy.
  }
}

function selectAll(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

function expandAll(button) {
  const all = [...document.querySelectorAll(button.dataset.expand)];
  const open = all.some((item) => !item.open);
  for (const item of all) item.open = open;
  button.textContent = open ? "Collapse all" : "Expand all";
}

function dropEmptyFields(form) {
  for (const field of form.elements) {
    if (field.name && field.value === "") field.disabled = true;
  }
}

// The same rule as the server's: each {{name}} of a declared argument is replaced once, nothing is evaluated.
function renderPrompt(template, values, target) {
  target.replaceChildren();
  const placeholder = /\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}/;
  for (const [place, piece] of template.split(placeholder).entries()) {
    if (place % 2 === 0) {
      target.append(piece);
    } else if (values.has(piece) && values.get(piece) !== "") {
      target.append(values.get(piece));
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

function startPreview(panel) {
  const template = document.getElementById("id_template");
  const declared = document.getElementById("id_arguments");
  if (!template || !declared) return;
  const inputs = panel.querySelector("[data-preview-values]");
  const output = panel.querySelector("[data-preview-output]");
  const values = new Map();
  let names = [];
  const show = () => renderPrompt(template.value, values, output);
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
  panel.hidden = false;
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

document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copyFrom(button));
  }
  for (const button of document.querySelectorAll("[data-expand]")) {
    button.addEventListener("click", () => expandAll(button));
  }
  // A link to one message finds it open.
  const linked = document.getElementById(window.location.hash.slice(1));
  if (linked instanceof HTMLDetailsElement) linked.open = true;
  for (const form of document.querySelectorAll("form[data-drop-empty]")) {
    form.addEventListener("submit", () => dropEmptyFields(form));
  }
  for (const panel of document.querySelectorAll("[data-prompt-preview]")) startPreview(panel);
  // A secret is in the answer to a POST: reloading must lead to the list, not issue a second key.
  const once = document.querySelector("[data-replace-address]");
  if (once) window.history.replaceState(null, "", once.dataset.replaceAddress);
});
// Coming back by the browser's history finds the filter fields usable again.
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-drop-empty] :disabled")) field.disabled = false;
});
