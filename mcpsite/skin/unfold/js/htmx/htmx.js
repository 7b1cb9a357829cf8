// In the place of a script of the skin that its own pages here have no use for: it comes to pages with attributes
// for it, once they are loaded, when it begins at once. `hx-preserve`, which lists have, does nothing alone.
"use strict";
(() => {
  const { dataset, src } = document.currentScript;
  const whole = new URL("whole/htmx.js", new URL(dataset.htmx ?? src, location.href));
  const used = "boolean(//@*[starts-with(name(), 'hx-') or starts-with(name(), 'data-hx-')][name() != 'hx-preserve'])";
  window.addEventListener("load", () => {
    if (!document.evaluate(used, document, null, XPathResult.BOOLEAN_TYPE).booleanValue) return;
    const script = document.createElement("script");
    script.src = whole;
    document.head.append(script);
  });
})();
