// What a script adds to pages that work without one: they stay true by themselves, tell times in the
// viewer's zone, show what one points at in a chart, and can be steered by keyboard.
(() => {
  "use strict";
  const $ = (which, from = document) => from.querySelector(which);
  const $$ = (which, from = document) => [...from.querySelectorAll(which)];

  // --- times -----------------------------------------------------------------------------------
  const zone = Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const short = (seconds) => {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
      if (seconds >= size) return `${Math.round(seconds / size)} ${unit}`;
    return `${Math.round(seconds)} s`;
  };
  // The server's clock is the one that counts: how far this one is off is told with each page.
  let ahead = 0;
  const clock = () => {
    const now = $("[data-now]")?.dataset.now;
    if (now) ahead = Date.now() - Date.parse(now);
  };
  const times = () => {
    for (const each of $$("time[datetime]")) {
      const at = Date.parse(each.dateTime);
      if (Number.isNaN(at)) continue;
      const here = zone.format(at);
      if (each.classList.contains("exact")) { if (each.textContent !== here) each.textContent = here; continue; }
      if (each.title !== here) each.title = here;
      const away = (at - (Date.now() - ahead)) / 1000;
      const told = Math.abs(away) < 1 ? "now" : away > 0 ? `in ${short(away)}` : `${short(-away)} ago`;
      if (each.textContent !== told) each.textContent = told;
    }
  };

  // --- charts ----------------------------------------------------------------------------------
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--plot-${name}`).trim();
  const plots = new Map();
  const charts = () => {
    for (const [place, plot] of plots)
      if (!place.isConnected || !place.contains(plot.root)) { plot.destroy(); plots.delete(place); delete place.dataset.drawn; }
    for (const place of $$(".chart[data-series]")) {
      const text = place.dataset.series;
      if (plots.has(place) && place.dataset.drawn === text) continue;
      const { x, lines } = JSON.parse(text);
      const data = [x, ...lines.map((line) => line.y)];
      place.dataset.drawn = text;
      if (plots.has(place)) { plots.get(place).setData(data); continue; }
      place.replaceChildren();
      const ink = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
      const grid = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
      const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const plot = new uPlot({
        width: place.clientWidth || 600, height: 190, cursor: { y: false, points: { size: 6 } },
        scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
        axes: [axis, { ...axis, size: 44 }],
        series: [{}, ...lines.map((line) => ({
          label: line.name, stroke: colour(line.kind), width: 2, points: { show: line.y.filter((each) => each != null).length < 3, size: 5 },
          fill: line.fill ? colour(line.kind) + "2b" : undefined,
          value: (_, value) => (value == null ? "–" : value.toLocaleString() + (line.unit || "")),
        }))],
      }, data, place);
      plots.set(place, plot);
    }
  };
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      for (const [place, plot] of plots) plot.setSize({ width: place.clientWidth, height: 190 });
    }, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [place, plot] of plots) { plot.destroy(); plots.delete(place); delete place.dataset.drawn; }
    charts();
  });

  // --- staying true ----------------------------------------------------------------------------
  const SOON = 400, AT_MOST_EVERY = 1000, AT_LEAST_EVERY = 5000;
  let asked = 0, waiting = 0, busy = false;
  const refresh = () => {
    waiting = 0;
    if (document.hidden || !$("#page[data-live]") || $("dialog[open]")) return;
    if (busy) { soon(); return; }
    busy = true;
    asked = Date.now();
    htmx.ajax("GET", location.pathname + location.search, { source: "#page", target: "#live", select: "#live", swap: "outerMorph" })
      .catch(() => {}).finally(() => { busy = false; });
  };
  const soon = () => {
    if (waiting) return;
    waiting = setTimeout(refresh, Math.max(SOON, asked + AT_MOST_EVERY - Date.now()));
  };
  const mark = (on) => {
    document.documentElement.dataset.heard = on ? "on" : "off";
    for (const each of $$(".live")) {
      each.classList.toggle("on", on);
      each.classList.toggle("off", !on);
      each.textContent = on ? "live" : "reconnecting";
    }
  };
  let events = null;
  const listen = () => {
    if (events || document.hidden || !$("#page[data-live]")) return;
    events = new EventSource("/api/events");
    events.onopen = () => mark(true);
    events.onerror = () => mark(false);
    for (const kind of ["queued", "running", "retry", "redriven", "complete", "skipped", "failed", "expired", "cancelled", "missed"])
      events.addEventListener(kind, soon);
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { events?.close(); events = null; }
    else { listen(); soon(); }
  });
  addEventListener("pagehide", () => { events?.close(); events = null; });
  setInterval(() => { if (Date.now() - asked >= AT_LEAST_EVERY) soon(); times(); }, 1000);

  const drawn = () => {
    clock(); times(); charts();
    for (const each of $$("[data-scripted]")) each.hidden = false;
    if (document.documentElement.dataset.heard) mark(document.documentElement.dataset.heard === "on");
  };
  document.addEventListener("htmx:after:swap", drawn);
  document.addEventListener("htmx:after:settle", drawn);

  // --- keyboard --------------------------------------------------------------------------------
  let going = false;
  const step = (by) => {
    const links = $$("table.rows tbody tr").map((row) => $("a", row)).filter(Boolean);
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const next = links[Math.min(links.length - 1, Math.max(0, at + by))];
    next.focus({ preventScroll: true });
    next.closest("tr").scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape" && typing) { event.target.blur(); return; }
    if (typing || $("dialog[open]")) return;
    if (going) {
      going = false;
      const link = $(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const acts = {
      g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
      j: () => step(1), k: () => step(-1),
      "/": () => $("[data-first]")?.focus(),
      "?": () => $("#keys")?.showModal(),
      r: () => $("button[data-act='retry']:not([disabled])")?.focus(),
    };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys]")) $("#keys")?.showModal();
    const theme = event.target.closest("[data-theme-next]");
    if (theme) {
      const now = document.documentElement.dataset.theme || "auto";
      const next = { auto: "dark", dark: "light", light: "auto" }[now];
      if (next === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = next;
      try { localStorage.setItem("seawall-theme", next); } catch {}
      for (const [place, plot] of plots) { plot.destroy(); plots.delete(place); delete place.dataset.drawn; }
      charts();
    }
  });
  try {
    const kept = localStorage.getItem("seawall-theme");
    if (kept && kept !== "auto") document.documentElement.dataset.theme = kept;
  } catch {}

  const begin = () => { drawn(); listen(); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
