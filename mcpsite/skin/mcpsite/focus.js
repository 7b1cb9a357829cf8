// The skin hides a page until it is drawn, and what is hidden gets no focus: the first field of a form, as that
// of the login, gets it afterwards.
"use strict";
window.addEventListener("load", () => window.setTimeout(() => {
  if (document.activeElement === document.body) document.querySelector("form [autofocus]")?.focus();
}));
