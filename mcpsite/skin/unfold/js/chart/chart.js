// In the place of the skin's largest script, which comes only to pages that have something to draw on: before
// the page counts as loaded, when the skin looks for its charts.
"use strict";
(() => {
  const { dataset, src } = document.currentScript;
  const whole = new URL("whole/chart.js", new URL(dataset.chart ?? src, location.href));
  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("canvas")) return;
    const script = document.createElement("script");
    script.src = whole;
    document.head.append(script);
  });
})();
