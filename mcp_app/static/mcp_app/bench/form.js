// A form from a JSON Schema: slots that hold controls, nested as the schema is. Everything is built when it is first
// needed, so that a schema which refers to itself ends where people stop opening it.

import {
  NotJson, booleanControl, boxesControl, choiceControl, constControl, jsonControl, numberControl, textControl, withoutMembers,
} from "./controls.js";
import { alternatives, choices, hint, looksLike, resolved, typeOf } from "./schema.js";
import { element, isObject, line, lines } from "./text.js";

const DEEPEST = 12;
const MOST_OPENED = 200;
const COMPOUND = new Set(["object", "array", "variants"]);
let made = 0;

// changed(): something was typed. complete(name, value): resolves to suggestions; null where there are none.
export class Form {
  constructor(schema, { changed = () => {}, complete = null } = {}) {
    this.root = isObject(schema) ? schema : {};
    this.changed = changed;
    this.complete = complete;
    this.opened = 0;
    this.top = objectControl(this, resolved(this.root, this.root), 0, true);
    this.node = this.top.node;
    this.top.set(undefined);
  }

  // The whole value; throws NotJson after marking the field.
  get() {
    this.clear();
    return this.top.get() ?? {};
  }

  set(value) {
    this.clear();
    this.top.set(value);
  }

  // A schema that requires itself several times over must not fill the page by itself.
  hasRoom() {
    this.opened += 1;
    return this.opened < MOST_OPENED;
  }

  clear() {
    for (const node of this.node.querySelectorAll("[data-error]")) node.hidden = true;
  }

  // Says what is wrong beside the field that `path` ("a.0.b") names, or the nearest around it; false when there is none.
  complain(path, text) {
    const slot = this.top.at(path);
    slot?.complain(text);
    return slot !== undefined;
  }
}

// A labelled place for one value.
class Slot {
  constructor(form, schema, { name, label, required, depth, remove = null }) {
    // Items and alternatives have no name: that they are required goes without saying.
    Object.assign(this, { form, name, required, depth, id: `mcp-bench-field-${++made}` });
    this.whole = resolved(form.root, schema);
    const several = choices(form.root, this.whole) ? null : alternatives(form.root, this.whole);
    this.nullable = several?.nullable ?? false;
    // A value that may also be null is shown as what it is when it is not.
    const { title, description, default: preset } = this.whole;
    this.schema = several?.branches.length === 1
      ? { ...several.branches[0], ...(title !== undefined && { title }), ...(description !== undefined && { description }), ...(preset !== undefined && { default: preset }) }
      : this.whole;
    this.several = several && several.branches.length > 1 ? several : null;
    this.compound = COMPOUND.has(this.kind()) && !this.isBoxes();
    this.error = element("p", { class: "mcp-bench-error", role: "alert", "data-error": true, hidden: true });
    this.holder = element("div", { class: "mcp-bench-control" });
    this.build(label ?? this.schema.title ?? name, remove);
  }

  kind() {
    if (this.several) return "variants";
    if (Object.hasOwn(this.schema, "const") || (this.required && this.schema.enum?.length === 1)) return "const";
    if (choices(this.form.root, this.schema)) return "choice";
    const type = typeOf(this.schema);
    if (type === "object" && !isObject(this.schema.properties) && !isObject(this.schema.additionalProperties)) return "any";
    return type;
  }

  isBoxes() { return this.kind() === "array" && this.boxes() !== null; }

  boxes() { return isObject(this.schema.items) ? choices(this.form.root, resolved(this.form.root, this.schema.items)) : null; }

  build(label, remove) {
    const { description } = this.schema;
    const shown = typeof label === "string" ? label : this.name;
    const heading = [line(shown)];
    if (shown !== this.name && this.name) heading.push(" ", element("code", { class: "mcp-dim" }, line(this.name)));
    if (this.required && this.name) heading.push(" ", element("span", { class: "mcp-bench-required" }, "required"));
    const under = [
      typeof description === "string" && description ? element("p", { class: "mcp-bench-help" }, lines(description)) : null,
      element("p", { class: "mcp-bench-help mcp-dim" }, line(hint(this.schema))),
    ].filter((node) => node?.textContent);
    this.removing = remove && element("button", { class: "mcp-button mcp-bench-small", type: "button", onclick: remove }, "Remove");
    if (!this.compound) {
      const boxes = this.isBoxes();
      this.node = element("div", { class: "mcp-bench-field", ...(boxes && { role: "group", "aria-labelledby": `${this.id}-label` }) },
        element("div", { class: "mcp-bench-label" }, element(boxes ? "span" : "label", boxes ? { id: `${this.id}-label` } : { for: this.id }, ...heading), this.removing),
        this.holder, ...under, this.error);
      return;
    }
    this.adding = element("button", { class: "mcp-button mcp-bench-small", type: "button", onclick: () => { this.open(this.preset()); this.form.changed(); } }, "Add");
    this.dropping = element("button", { class: "mcp-button mcp-bench-small", type: "button", onclick: () => { this.close(); this.form.changed(); } }, "Leave out");
    this.node = element("fieldset", { class: "mcp-bench-group" },
      element("legend", {}, ...heading), ...under,
      element("div", { class: "mcp-buttons" }, this.adding, this.dropping, this.removing), this.holder, this.error);
    this.close();
  }

  control() {
    const { form, schema, id, name, required, nullable, depth } = this;
    const facts = { id, name, required, nullable };
    if (depth > DEEPEST) return jsonControl(form, facts);
    switch (this.kind()) {
      case "variants": return variantsControl(form, this.several, depth, id);
      case "const": return constControl(form, Object.hasOwn(schema, "const") ? schema : { const: schema.enum[0] });
      case "choice": {
        const offered = choices(form.root, schema);
        return choiceControl(form, nullable ? [...offered, { value: null }] : offered, facts);
      }
      case "object": return objectControl(form, schema, depth, false);
      case "array": return this.isBoxes() ? boxesControl(form, this.boxes()) : arrayControl(form, schema, depth);
      case "string": return textControl(form, schema, facts);
      case "integer":
      case "number": return numberControl(form, schema, facts);
      case "boolean": return booleanControl(form, schema, { ...facts, required: required || schema.default !== undefined });
      case "null": return constControl(form, { const: null });
      default: return jsonControl(form, facts);
    }
  }

  // Puts a control in place that can show the value.
  open(value) {
    if (!this.held || this.held.isJson || !this.held.accepts(value)) {
      this.held = this.control();
      if (!this.held.accepts(value)) this.held = jsonControl(this.form, this);
      this.holder.replaceChildren(this.held.node);
    }
    this.held.set(value);
    this.present(true);
  }

  close() {
    this.held = undefined;
    this.holder.replaceChildren();
    this.present(false);
  }

  present(there) {
    if (!this.compound) return;
    this.adding.hidden = there;
    this.dropping.hidden = !there || this.required || this.removing !== null;
    this.holder.hidden = !there;
  }

  get() {
    if (!this.held) return undefined;
    try {
      const value = this.held.get();
      const trouble = this.held.trouble?.();
      if (trouble) this.complain(trouble);
      return this.isBoxes() && !this.required && value?.length === 0 ? undefined : value;
    } catch (error) {
      if (error instanceof NotJson && !error.field) {
        error.field = this;
        this.complain(`Not JSON: ${error.message}`);
      }
      throw error;
    }
  }

  // `fresh`: an empty form, where defaults stand; otherwise what is not given is left out.
  set(value, fresh = false) {
    const shown = value === undefined && fresh ? this.preset() : value;
    const opens = shown !== undefined || !this.compound || (fresh && this.required && this.form.hasRoom());
    if (opens) this.open(shown);
    else this.close();
  }

  // The default; an optional value whose default is null is simply not there.
  preset() { return this.schema.default === null && this.nullable ? undefined : this.schema.default; }

  at(path) { return path === "" ? this : this.held?.at?.(path) ?? this; }

  complain(text) {
    this.error.replaceChildren(line(text));
    this.error.hidden = false;
  }
}

function objectControl(form, schema, depth, isTop) {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const slots = new Map(properties.map(([name, member]) => [name, new Slot(form, member, { name, required: required.has(name), depth: depth + 1 })]));
  const known = new Set(slots.keys());
  const open = isObject(schema.additionalProperties) ? schema.additionalProperties : null;
  const rows = open ? memberRows(form, open, depth) : null;
  // Members that no field is for, so that nothing typed as JSON is lost.
  const others = new Slot(form, {}, { name: "", label: "Other members, as a JSON object", required: false, depth: DEEPEST + 1 });
  const node = element("div", { class: isTop ? "mcp-bench-form" : "mcp-bench-members" }, ...[...slots.values()].map((slot) => slot.node), rows?.node, others.node);
  const empty = isTop && slots.size === 0 && !rows ? element("p", { class: "mcp-dim" }, "It takes no arguments.") : null;
  if (empty) node.prepend(empty);
  return {
    node,
    get() {
      const value = {};
      for (const [name, slot] of slots) assign(value, name, slot.get());
      for (const [name, item] of rows?.get() ?? []) assign(value, name, item);
      const more = others.get();
      if (more !== undefined && !isObject(more)) {
        others.complain("Must be an object: { … }");
        throw Object.assign(new NotJson("not an object"), { field: others });
      }
      for (const [name, item] of Object.entries(more ?? {})) assign(value, name, item);
      return value;
    },
    set(value) {
      const fresh = value === undefined;
      for (const [name, slot] of slots) slot.set(isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined, fresh);
      const rest = withoutMembers(value, known);
      rows?.set(rest);
      const unknown = !rows && Object.keys(rest).length > 0;
      if (unknown) others.open(rest);
      else others.close();
      others.node.hidden = !unknown;
    },
    accepts: (value) => value === undefined || isObject(value),
    at(path) {
      for (const [name, slot] of slots) {
        if (path === name) return slot.at("");
        if (path.startsWith(`${name}.`)) return slot.at(path.slice(name.length + 1));
      }
      return rows?.at(path);
    },
  };
}

// Not by plain assignment: that would make "__proto__" something else than a member.
function assign(object, name, value) {
  if (value !== undefined) Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

// Members whose names people choose.
function memberRows(form, schema, depth) {
  const list = element("div", { class: "mcp-bench-items" });
  let rows = [];
  const add = (name, value) => {
    const input = element("input", { class: "mcp-input", type: "text", value: name, placeholder: "name", "aria-label": "Name of the member" });
    input.addEventListener("input", form.changed);
    const row = { input };
    row.slot = new Slot(form, schema, { name: "", label: "value", required: true, depth: depth + 1, remove: () => { rows = rows.filter((each) => each !== row); row.node.remove(); form.changed(); } });
    row.slot.set(value, value === undefined);
    row.node = element("div", { class: "mcp-bench-row" }, input, row.slot.node);
    rows.push(row);
    list.append(row.node);
  };
  const button = element("button", { class: "mcp-button mcp-bench-small", type: "button", onclick: () => { add("", undefined); form.changed(); } }, "Add a member");
  return {
    node: element("div", {}, list, button),
    get: () => rows.filter(({ input }) => input.value !== "").map(({ input, slot }) => [input.value, slot.get()]),
    set(value) {
      rows = [];
      list.replaceChildren();
      for (const [name, item] of Object.entries(value)) add(name, item);
    },
    at: (path) => rows.find(({ input }) => path === input.value || path.startsWith(`${input.value}.`))?.slot,
  };
}

function arrayControl(form, schema, depth) {
  const fixed = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const list = element("div", { class: "mcp-bench-items" });
  let slots = [];
  const itemSchema = (place) => fixed[place] ?? schema.items ?? {};
  const number = () => { for (const [place, slot] of slots.entries()) slot.node.querySelector("bdi").textContent = String(place + 1); };
  const add = (value, fresh) => {
    const slot = new Slot(form, itemSchema(slots.length), { name: "", label: "", required: true, depth: depth + 1, remove: () => { slots = slots.filter((each) => each !== slot); slot.node.remove(); number(); form.changed(); } });
    slot.set(value, fresh);
    slots.push(slot);
    list.append(slot.node);
    number();
  };
  const button = element("button", { class: "mcp-button mcp-bench-small", type: "button", onclick: () => { add(undefined, true); form.changed(); } }, "Add an item");
  return {
    node: element("div", {}, list, button),
    get: () => slots.map((slot) => slot.get() ?? (slot.kind() === "string" ? "" : null)),
    set(value) {
      slots = [];
      list.replaceChildren();
      for (const item of Array.isArray(value) ? value : []) add(item, false);
      if (value === undefined) for (let place = 0; place < Math.min(Math.max(fixed.length, schema.minItems ?? 0), 20); place += 1) add(undefined, true);
    },
    accepts: (value) => value === undefined || Array.isArray(value),
    at(path) {
      const [place, ...rest] = path.split(".");
      return slots[Number(place)]?.at(rest.join("."));
    },
  };
}

function variantsControl(form, { branches, nullable }, depth, id) {
  const all = nullable ? [...branches, { type: "null", title: "null" }] : branches;
  const name = (branch, place) => (typeof branch.title === "string" && branch.title) || (typeof branch.type === "string" && branch.type) || `alternative ${place + 1}`;
  const select = element("select", { class: "mcp-input", id, "aria-label": "Which alternative" }, ...all.map((branch, place) => element("option", { value: String(place) }, line(name(branch, place)).textContent)));
  const holder = element("div", { class: "mcp-bench-variant" });
  let slot;
  const show = (place, value, fresh) => {
    select.value = String(place);
    slot = new Slot(form, all[place], { name: "", label: name(all[place], place), required: true, depth: depth + 1 });
    slot.set(value, fresh);
    holder.replaceChildren(slot.node);
  };
  select.addEventListener("change", () => { show(Number(select.value), undefined, true); form.changed(); });
  const fitting = (value) => all.findIndex((branch) => looksLike(form.root, branch, value));
  return {
    node: element("div", {}, select, holder),
    get: () => slot?.get(),
    set(value) {
      if (value === undefined) show(0, undefined, true);
      else show(Math.max(fitting(value), 0), value, false);
    },
    accepts: (value) => value === undefined || fitting(value) >= 0,
    at: (path) => slot?.at(path),
  };
}
