// The arguments of a prompt as rows, made from the placeholders that are typed. The field that is sent is the JSON
// below them, which stays the way for what rows cannot say; without this script it is the only one.
"use strict";

(() => {
  const PLACEHOLDER = /\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*\}\}/g;
  const isObject = (item) => typeof item === "object" && item !== null && !Array.isArray(item);

  function made(tag, names, parent) {
    const element = document.createElement(tag);
    Object.assign(element, names);
    parent.append(element);
    return element;
  }

  // What the field holds; null while rows cannot show it.
  function read(field) {
    try {
      const found = JSON.parse(field.value.trim() || "[]");
      return Array.isArray(found) && found.every(isObject) ? found : null;
    } catch {
      return null;
    }
  }

  function named(template) {
    return [...new Set([...(template?.value ?? "").matchAll(PLACEHOLDER)].map((found) => found[1]))];
  }

  class ArgumentRows {
    constructor(field, template) {
      this.field = field;
      this.template = template;
      this.items = [];
      // Whose row was removed is not given another one.
      this.left = new Set();
      // Rows that nobody has touched: they go when their placeholder goes.
      this.fresh = new Set();
      const box = field.closest(".mcp-json-field");
      const json = document.createElement("details");
      json.className = "mcp-details";
      this.list = document.createElement("div");
      this.list.className = "mcp-arguments";
      this.add = document.createElement("button");
      Object.assign(this.add, { type: "button", className: "mcp-button", textContent: "Add an argument" });
      box.before(this.list, this.add, json);
      made("summary", { textContent: "As JSON" }, json);
      json.append(box);
      this.json = json;
      this.writes = false;
      this.add.addEventListener("click", () => this.append());
      field.addEventListener("input", () => { if (!this.writes) this.show(); });
      template?.addEventListener("input", () => this.follow());
      this.show();
    }

    show() {
      const found = read(this.field);
      this.items = found ?? [];
      this.list.hidden = this.add.hidden = found === null;
      if (found === null) this.json.open = true;
      this.list.replaceChildren();
      for (const item of this.items) this.row(item);
    }

    row(item) {
      const name = String(item.name ?? "");
      const group = made("div", { className: "mcp-argument" }, this.list);
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", `Argument ${name}`.trim());
      const text = (words, key) => {
        const label = made("label", { textContent: words }, group);
        const input = made("input", { className: "mcp-input", value: String(item[key] ?? ""), autocomplete: "off" }, label);
        input.addEventListener("input", () => {
          if (key === "name") this.fresh.delete(item);
          item[key] = input.value;
          this.touched(item);
        });
        return input;
      };
      text("Name", "name").spellcheck = false;
      text("Description", "description");
      const label = made("label", { className: "mcp-choice" }, group);
      const box = made("input", { type: "checkbox", checked: item.required === true }, label);
      label.append(" required");
      box.addEventListener("change", () => { item.required = box.checked; this.touched(item); });
      const remove = made("button", { type: "button", className: "mcp-button", textContent: "Remove" }, group);
      remove.setAttribute("aria-label", `Remove ${name}`.trim());
      remove.addEventListener("click", () => this.remove(item));
    }

    touched(item) {
      this.fresh.delete(item);
      this.write();
    }

    append() {
      this.items.push({ name: "", description: "", required: false });
      this.row(this.items.at(-1));
      this.write();
      this.list.lastElementChild.querySelector("input").focus();
    }

    remove(item) {
      const place = this.items.indexOf(item);
      this.items.splice(place, 1);
      this.left.add(String(item.name));
      this.list.children[place].remove();
      this.write();
      (this.list.children[Math.min(place, this.items.length - 1)]?.querySelector("button") ?? this.add).focus();
    }

    // A row for each placeholder that has just been typed; none for one that is gone and was only that.
    follow() {
      if (read(this.field) === null) return;
      const names = named(this.template);
      const kept = this.items.filter((item) => !this.fresh.has(item) || names.includes(item.name));
      const known = kept.map((item) => item.name);
      const added = names.filter((name) => !known.includes(name) && !this.left.has(name));
      const items = added.map((name) => ({ name, description: "", required: true }));
      if (!items.length && kept.length === this.items.length) return;
      for (const item of items) this.fresh.add(item);
      this.items = [...kept, ...items];
      this.list.replaceChildren();
      for (const item of this.items) this.row(item);
      this.write();
    }

    write() {
      this.writes = true;
      this.field.value = JSON.stringify(this.items, null, 2);
      this.field.dispatchEvent(new CustomEvent("written"));
      this.field.dispatchEvent(new Event("input", { bubbles: true }));
      this.writes = false;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const template = document.getElementById("id_template");
    for (const field of document.querySelectorAll("textarea[data-argument-rows]")) new ArgumentRows(field, template);
  });
})();
