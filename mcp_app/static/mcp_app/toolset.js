// The picker of a toolset's entries: search, and the number and estimated tokens of the selected entries.
"use strict";

function openPicker() {
  const MANY_TOOLS = 40;
  const picker = document.querySelector("[data-picker]");
  if (!picker) return;
  const search = picker.querySelector("[data-picker-search]");
  const searches = document.getElementById("id_searches");
  const total = picker.querySelector("[data-picker-total]");
  const boxes = [...picker.querySelectorAll("input[type=checkbox]")];
  const rows = [...picker.querySelectorAll("tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() }));

  function count() {
    const chosen = boxes.filter((box) => box.checked);
    const isTool = (box) => box.value.startsWith("tool ");
    const listed = searches.checked ? chosen.filter((box) => !isTool(box)) : chosen;
    const search = searches.checked ? Number(picker.dataset.searchTokens) : 0;
    const tokens = listed.reduce((sum, box) => sum + Number(box.dataset.tokens), search);
    const tools = listed.filter(isTool).length;
    const advice = tools > MANY_TOOLS ? ` Models choose worse among more than ${MANY_TOOLS} tools.` : "";
    const shown = tokens.toLocaleString("en-US");
    total.textContent = `${chosen.length} selected, about ${shown} tokens. Rules may add more.${advice}`;
    total.dataset.tokens = tokens;
  }

  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/);
    for (const { row, text } of rows) row.hidden = !words.every((word) => text.includes(word));
  });
  // Enter in the search must not submit the form.
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
  picker.addEventListener("change", count);
  searches.addEventListener("change", count);
  count();
}

document.addEventListener("DOMContentLoaded", openPicker);
