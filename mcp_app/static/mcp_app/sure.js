// What cannot be undone is asked for first. The question stays until it is answered: no time runs out, and a
// second press of the same place does nothing. Without JavaScript the button does what it says at once.
//
// <button data-sure="The question, with what follows" data-sure-yes="Do it" data-sure-no="Leave it">

"use strict";

(() => {
  let answered = null;
  let count = 0;

  function ask(event) {
    const button = event.target.closest?.("button[data-sure]");
    if (!button || button === answered) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    button.after(question(button));
    button.hidden = true;
    // What harms nothing has the focus: whoever presses twice without reading keeps what is there.
    button.nextElementSibling.querySelector("[data-no]").focus();
  }

  function question(button) {
    const box = document.createElement("span");
    const words = document.createElement("span");
    count += 1;
    words.id = `mcp-sure-${count}`;
    words.textContent = button.dataset.sure;
    box.className = "mcp-sure";
    box.setAttribute("role", "alertdialog");
    box.setAttribute("aria-labelledby", words.id);
    box.append(words, answer(button, "yes"), answer(button, "no"));
    return box;
  }

  function answer(button, which) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = which === "yes" ? "mcp-button mcp-danger" : "mcp-button";
    made.dataset[which] = "";
    made.textContent = button.dataset[which === "yes" ? "sureYes" : "sureNo"];
    made.addEventListener("click", () => end(made.closest(".mcp-sure"), which === "yes"));
    return made;
  }

  function end(box, yes) {
    const button = box.previousElementSibling;
    box.remove();
    button.hidden = false;
    button.focus();
    if (!yes) return;
    answered = button;
    button.click();
    answered = null;
  }

  function leave(event) {
    if (event.key !== "Escape") return;
    const nowhere = event.target === document.body;
    const box = nowhere ? document.querySelector(".mcp-sure") : event.target.closest?.(".mcp-sure");
    if (!box) return;
    event.stopPropagation();
    end(box, false);
  }

  // Before anybody else: a button with a handler of its own is asked about, too.
  document.addEventListener("click", ask, true);
  document.addEventListener("keydown", leave, true);
})();
