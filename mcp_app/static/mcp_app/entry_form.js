// Tabs of an entry's form, and the scheme that a URI gets when it is saved. Without this script, the links of the
// tabs lead to sections of one page.
"use strict";

(() => {
  class Tabs {
    constructor(nav) {
      this.links = new Map();
      for (const link of nav.querySelectorAll("a")) {
        const panel = document.getElementById(link.hash.slice(1));
        this.links.set(panel, link);
        link.addEventListener("click", (event) => {
          event.preventDefault();
          this.open(panel);
          window.history.replaceState(null, "", link.hash);
        });
      }
      nav.parentElement.classList.add("mcp-tabbed");
      window.addEventListener("hashchange", () => this.open(this.named()));
      // The next page of the form shows the same tab again.
      const form = nav.closest("form");
      form.addEventListener("submit", () => {
        if (this.panel !== this.first()) form.action = `${location.pathname}${location.search}#${this.panel.id}`;
      });
      this.open(this.failed() ?? this.named() ?? this.first());
    }

    first() {
      return this.links.keys().next().value;
    }

    // A tab with errors comes before the tab in the address.
    failed() {
      return [...this.links.keys()].find((panel) => this.links.get(panel).dataset.errors);
    }

    named() {
      const target = document.getElementById(location.hash.slice(1));
      return target ? [...this.links.keys()].find((panel) => panel.contains(target)) : undefined;
    }

    open(chosen) {
      if (!chosen) return;
      this.panel = chosen;
      for (const [panel, link] of this.links) {
        panel.hidden = panel !== chosen;
        if (panel === chosen) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  }

  function watchScheme(field) {
    const note = document.createElement("p");
    note.className = "mcp-dim";
    note.setAttribute("role", "status");
    field.after(note);
    const show = () => {
      const uri = field.value.trim();
      const lacks = uri !== "" && !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(uri);
      note.textContent = lacks ? `Will be saved as ${field.dataset.scheme}${uri.replace(/^\/+/, "")}` : "";
    };
    field.addEventListener("input", show);
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const nav of document.querySelectorAll("[data-tabs]")) new Tabs(nav);
    for (const field of document.querySelectorAll("input[data-scheme]")) watchScheme(field);
  });
})();
