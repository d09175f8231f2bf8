// Light or dark, as somebody has chosen here before: set before anything is drawn, on every page.
(() => {
  "use strict";
  try {
    const kept = localStorage.getItem("seawall-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {}
})();
