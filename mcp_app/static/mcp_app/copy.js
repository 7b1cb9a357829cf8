// Copy buttons: <button data-copy="id of what is copied">. A button may be hidden for those without scripts.
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

document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copyFrom(button));
  }
});
