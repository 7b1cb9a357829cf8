// The keys of the admin's pages: `?` shows them.
"use strict";

(() => {
  if (window.mcpKeys) return; // A page may have this script twice: from the skin and from its own list.
  window.mcpKeys = true;
  const MESSAGE = ".mcp-timeline .mcp-message > summary";
  const EVERYWHERE = [
    ["Tab, Shift+Tab", "go to the next or previous link, field or button"],
    ["Enter, Space", "follow the link or press the button"],
    ["/", "go to the search field of this page, or open the search"],
    ["Ctrl K", "open the search"],
    ["?", "show or close this list"],
  ];
  const LOG = [["m", "go to the messages of this page"]];
  const QUEUE = [
    ["j, k", "select the next or previous call"],
    ["a", "approve the selected call"],
    ["r", "refuse the selected call"],
  ];
  const CONSOLE = [
    ["↓, ↑", "select the next or previous message"],
    ["Enter", "open the selected message"],
    ["p", "pin the message"],
    ["Esc", "close the message"],
  ];

  function list(keys) {
    const made = document.createElement("dl");
    made.className = "mcp-keys-list";
    for (const [key, words] of keys) {
      const [name, said] = [document.createElement("dt"), document.createElement("dd")];
      for (const [place, part] of key.split(", ").entries()) {
        const cap = document.createElement("kbd");
        cap.textContent = part;
        if (place) name.append(" ");
        name.append(cap);
      }
      said.textContent = words;
      made.append(name, said);
    }
    return made;
  }

  function dialog() {
    const found = document.getElementById("mcp-keys");
    if (found) return found;
    const [made, title, close] = ["dialog", "h2", "button"].map((tag) => document.createElement(tag));
    made.id = "mcp-keys";
    made.setAttribute("aria-labelledby", "mcp-keys-title");
    title.id = "mcp-keys-title";
    title.textContent = "Keyboard shortcuts";
    close.className = "mcp-button";
    close.textContent = "Close";
    close.addEventListener("click", () => made.close());
    const log = document.querySelector(MESSAGE) ? LOG : [];
    made.append(title, list([...EVERYWHERE, ...log]));
    if (document.querySelector("[data-decision]")) made.append(list(QUEUE));
    if (document.getElementById("mcp-lines")) made.append(list(CONSOLE));
    made.append(close);
    document.body.append(made);
    return made;
  }

  // The boxes below a word close when something else is used.
  document.addEventListener("click", ({ target }) => {
    for (const menu of document.querySelectorAll("details[data-menu][open]")) if (!menu.contains(target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" ? event.target.closest?.("details[data-menu][open]") : null;
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, [contenteditable=true], [role=textbox]")) return;
    if (event.key === "?") {
      event.preventDefault();
      const shown = dialog();
      if (shown.open) shown.close();
      else shown.showModal();
    } else if (event.key === "m") {
      document.querySelector(MESSAGE)?.focus();
    } else if (event.key === "/" && !event.defaultPrevented) {
      const search = document.querySelector("#searchbar, [role=search] input[type=search]");
      if (search) { event.preventDefault(); search.focus(); }
    }
  });
})();
