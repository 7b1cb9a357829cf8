// The font of icons has those of our own pages. Where another app's page shows more, which would be read as
// words, the page gets all of them.
"use strict";
document.addEventListener("DOMContentLoaded", async () => {
  const font = '24px "Material Symbols Outlined"';
  await document.fonts.load(font);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  const isWord = ({ textContent }) => pen.measureText(textContent.trim()).width > 30;
  const icons = [...document.querySelectorAll(".material-symbols-outlined")];
  document.documentElement.classList.toggle("mcp-all-icons", icons.some(isWord));
});
