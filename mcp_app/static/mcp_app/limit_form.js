// The form of a limit offers the names of the selected kind of callers.
"use strict";

(() => {
  function openForm() {
    const kind = document.getElementById("id_who");
    const name = document.getElementById("id_who_value");
    const lists = [...document.querySelectorAll("datalist[data-kinds]")];
    if (!kind || !name) return;
    kind.addEventListener("change", () => {
      const list = lists.find((each) => each.dataset.kinds.split(" ").includes(kind.value));
      if (list) name.setAttribute("list", list.id);
      else name.removeAttribute("list");
    });
  }

  document.addEventListener("DOMContentLoaded", openForm);
})();
