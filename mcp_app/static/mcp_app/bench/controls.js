// The single controls of a form: each shows one JSON value and gives it back. A control has `node`, `get()` (undefined:
// nothing to send), `set(value)` and `accepts(value)`; what it does not accept is shown as JSON instead.

import { same } from "./schema.js";
import { element, isObject, line } from "./text.js";

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const INPUT_TYPES = { date: "date", email: "email", uri: "url", password: "password" };
const SUGGEST_AFTER = 200;

// What was typed is not JSON.
export class NotJson extends Error {}

export function textControl(form, schema, { id, name, required, nullable }) {
  const type = schema.writeOnly === true ? "password" : INPUT_TYPES[schema.format];
  const input = type
    ? element("input", { class: "mcp-input", id, type })
    : element("textarea", { class: "mcp-input", id, rows: schema.maxLength > 500 ? "4" : "1", spellcheck: "false" });
  let there = false;
  let empty; // What an empty field stands for: nothing, or null.
  const typed = () => { there = required || input.value !== ""; empty = undefined; form.changed(); };
  input.addEventListener("input", typed);
  const node = form.complete ? element("div", { class: "mcp-bench-complete" }, input) : input;
  if (form.complete) suggest(node, input, (value) => form.complete(name, value), typed);
  return {
    node,
    get: () => (there ? input.value : required && nullable ? null : empty),
    set(value) {
      there = typeof value === "string";
      empty = value === null ? null : undefined;
      input.value = there ? value : "";
    },
    accepts: (value) => value === undefined || (nullable && value === null)
      || (typeof value === "string" && (input.tagName === "TEXTAREA" || keeps(input, value))),
  };
}

// Whether an input of its type holds a value unchanged: a date field drops what is no date.
function keeps(input, value) {
  const trial = input.cloneNode();
  trial.value = value;
  return trial.value === value;
}

function suggest(node, input, complete, typed) {
  const list = element("ul", { class: "mcp-bench-suggestions", hidden: true });
  let timer = 0;
  let asked = 0;
  const close = () => { list.hidden = true; };
  const look = async () => {
    const number = ++asked;
    const values = await complete(input.value).catch(() => []);
    if (number !== asked || !node.contains(document.activeElement)) return;
    const useful = values.filter((value) => value !== input.value);
    list.replaceChildren(...useful.map((value) => element("li", {}, element("button", { type: "button", onclick: () => take(value) }, line(value)))));
    list.hidden = useful.length === 0;
  };
  const take = (value) => { input.value = value; typed(); close(); input.focus(); asked += 1; };
  const soon = () => { window.clearTimeout(timer); timer = window.setTimeout(look, SUGGEST_AFTER); };
  input.addEventListener("focus", soon);
  input.addEventListener("input", soon);
  node.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  node.addEventListener("focusout", (event) => { if (!node.contains(event.relatedTarget)) close(); });
  node.append(list);
}

export function numberControl(form, schema, { id, required, nullable }) {
  // Not type=number: that hides what was typed when it is no number, and the server should see it.
  const input = element("input", { class: "mcp-input", id, type: "text", inputmode: "decimal" });
  let empty;
  input.addEventListener("input", () => { empty = undefined; form.changed(); });
  return {
    node: input,
    get() {
      const text = input.value.trim();
      if (text === "") return required && nullable ? null : empty;
      return JSON_NUMBER.test(text) ? Number(text) : text;
    },
    set(value) {
      empty = value === null ? null : undefined;
      input.value = value === undefined || value === null ? "" : String(value);
    },
    accepts: (value) => value === undefined || typeof value === "number" || (nullable && value === null),
    trouble() {
      const value = this.get();
      const unsafe = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
      return unsafe ? "A browser cannot hold this number exactly: what is sent may differ in its last digits." : "";
    },
  };
}

export function booleanControl(form, schema, { id, required, nullable }) {
  if (!required || nullable) {
    const offered = [{ value: true }, { value: false }, ...(nullable ? [{ value: null }] : [])];
    return choiceControl(form, offered, { id, required });
  }
  const input = element("input", { id, type: "checkbox" });
  input.addEventListener("change", form.changed);
  return {
    node: input,
    get: () => input.checked,
    set(value) { input.checked = value === true; },
    accepts: (value) => value === undefined || typeof value === "boolean",
  };
}

export function choiceControl(form, offered, { id, required }) {
  const nothing = element("option", { value: "" }, required ? "choose…" : "not set");
  const options = offered.map(({ value, title, description }, place) => {
    const said = typeof title === "string" ? title : typeof value === "string" ? value : JSON.stringify(value);
    return element("option", { value: String(place), title: typeof description === "string" ? description : null }, line(said).textContent);
  });
  const select = element("select", { class: "mcp-input", id }, nothing, ...options);
  select.addEventListener("change", form.changed);
  return {
    node: select,
    get: () => (select.value === "" ? undefined : offered[Number(select.value)].value),
    set(value) {
      const place = offered.findIndex((choice) => same(choice.value, value));
      select.value = place < 0 ? "" : String(place);
    },
    accepts: (value) => value === undefined || offered.some((choice) => same(choice.value, value)),
  };
}

// Several of some values: a box for each.
export function boxesControl(form, offered) {
  const boxes = offered.map(({ value, title }) => {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", form.changed);
    const said = typeof title === "string" ? title : typeof value === "string" ? value : JSON.stringify(value);
    return { value, box, node: element("label", { class: "mcp-bench-box" }, box, " ", line(said)) };
  });
  return {
    node: element("div", { class: "mcp-bench-boxes" }, ...boxes.map((each) => each.node)),
    get: () => boxes.filter(({ box }) => box.checked).map(({ value }) => value),
    set(value) {
      const chosen = Array.isArray(value) ? value : [];
      for (const each of boxes) each.box.checked = chosen.some((item) => same(item, each.value));
    },
    accepts(value) {
      if (value === undefined) return true;
      if (!Array.isArray(value)) return false;
      const known = boxes.filter((each) => value.some((item) => same(item, each.value)));
      return known.length === value.length && same(known.map((each) => each.value), value);
    },
  };
}

export function constControl(form, schema) {
  const node = element("code", {}, line(JSON.stringify(schema.const)));
  return { node, get: () => schema.const, set() {}, accepts: (value) => value === undefined || same(value, schema.const) };
}

// Any value, as JSON; also a secret's, a number's too large for a browser, and what the schema did not foresee.
export function jsonControl(form, { id }) {
  const input = element("textarea", { class: "mcp-input mcp-bench-json", id, rows: "3", spellcheck: "false", placeholder: "JSON" });
  input.addEventListener("input", form.changed);
  return {
    node: input,
    get() {
      if (input.value.trim() === "") return undefined;
      try {
        return JSON.parse(input.value);
      } catch (error) {
        throw new NotJson(error.message);
      }
    },
    set(value) {
      input.value = value === undefined ? "" : JSON.stringify(value, null, 2);
      input.rows = Math.min(12, Math.max(1, input.value.split("\n").length));
    },
    accepts: () => true,
    isJson: true,
  };
}

export function withoutMembers(value, names) {
  return isObject(value) ? Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name))) : {};
}
