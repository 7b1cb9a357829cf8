// Shows the request of an HTTP tool as it will be sent, while the form is filled in.

"use strict";

(() => {
  const form = document.querySelector("form[data-http-tool]");
  if (!form) return;
  const preview = form.querySelector("[data-http-preview]");
  const problem = form.querySelector("[data-http-problem]");
  const WAIT = 400;
  let timer = 0;
  let newest = 0;

  async function show() {
    newest += 1;
    const number = newest;
    const data = new FormData(form);
    data.set("_live", "1");
    let answer;
    try {
      const response = await fetch(form.action, { method: "POST", body: data, credentials: "same-origin" });
      if (!response.ok) return;
      answer = await response.json();
    } catch {
      return; // The preview stays as it is; the next change tries again.
    }
    if (number !== newest) return;
    preview.textContent = answer.request;
    problem.textContent = answer.problem;
    problem.hidden = !answer.problem || !form.elements.address.value;
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(show, WAIT);
  }

  form.addEventListener("input", later);
  form.addEventListener("change", later);
  if (form.elements.address.value) show();
})();
