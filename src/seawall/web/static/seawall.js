// What a script adds to pages that work without one: they stay true by themselves, tell times in the
// viewer's zone, show what one points at in a chart, and can be steered by keyboard.
(() => {
  "use strict";
  const $ = (which, from = document) => from.querySelector(which);
  const $$ = (which, from = document) => [...from.querySelectorAll(which)];
  const root = document.documentElement;

  // --- times -----------------------------------------------------------------------------------
  const zone = Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const hour = Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const short = (seconds) => {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
      if (seconds >= size) return `${Math.round(seconds / size)} ${unit}`;
    return `${Math.round(seconds)} s`;
  };
  // The server's clock is the one that counts: how far this one is off is told with each page.
  let ahead = 0, asOf = Date.now(), clocked = "";
  const clock = () => {
    const now = $("[data-now]")?.dataset.now;
    if (!now || now === clocked) return; // a part was drawn anew: the rest is as old as it was
    clocked = now;
    asOf = Date.parse(now);
    ahead = Date.now() - asOf;
  };
  const write = (each, text) => { if (each.textContent !== text) each.textContent = text; };
  const times = () => {
    for (const each of $$("time[datetime]")) {
      const at = Date.parse(each.dateTime);
      if (Number.isNaN(at)) continue;
      const here = zone.format(at);
      if (each.classList.contains("exact")) { write(each, here); continue; }
      if (each.title !== here) each.title = here;
      const away = (at - (Date.now() - ahead)) / 1000;
      write(each, Math.abs(away) < 1 ? "now" : away > 0 ? `in ${short(away)}` : `${short(-away)} ago`);
    }
  };

  // --- what is said aloud ----------------------------------------------------------------------
  // One place is read aloud when it changes, and nothing ticks in it: no list, no time, no chart.
  const say = (text) => { const place = $("#heard"); if (place && text) place.textContent = text; };
  let held = null;
  const banners = () => {
    const now = new Map($$(".banner[data-name]").map((each) => [each.dataset.name, each.dataset.told]));
    if (held) {
      for (const [name, told] of now) if (!held.has(name)) say(told);
      for (const name of held.keys()) if (!now.has(name)) say(`${name} is not held any more.`);
    }
    held = now;
  };

  // --- charts ----------------------------------------------------------------------------------
  const style = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const figure = (value) => value.toLocaleString(undefined, { maximumSignificantDigits: 4 });
  const told = (value, unit) =>
    value == null ? "–" : unit !== " s" || value >= 1 || !value ? figure(value) + unit : `${figure(value * 1000)} ms`;
  const HIGH = 190;
  const plots = new Map();
  const forget = (place) => { plots.get(place).destroy(); plots.delete(place); delete place.dataset.drawn; };
  const line = ({ name, kind, y, fill, unit }) => ({
    label: name, stroke: style(`plot-${kind}`), width: 2,
    points: { show: y.filter((each) => each != null).length < 3, size: 5 },
    fill: fill ? style(`plot-${kind}`) + "2b" : undefined,
    value: (plot, value, which, at) => // where nobody points, the last one
      told(at == null ? plot.data[which].findLast((each) => each != null) : value, unit),
  });
  const chart = (place, lines, data) => {
    place.replaceChildren();
    const unit = lines[0]?.unit ?? "";
    const hours = (data[0].at(-1) - data[0][0]) / 3600;
    const clocked = Intl.DateTimeFormat(undefined, hours > 30 ? { weekday: "short", hour: "numeric" } : { timeStyle: "short" });
    const axis = {
      stroke: style("soft"), grid: { stroke: style("line"), width: 1 }, ticks: { show: false },
      font: `12px ${style("font")}`,
    };
    return new uPlot({
      width: place.clientWidth || 600, height: HIGH, cursor: { y: false, points: { size: 6 } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 28, space: 72, values: (_, at) => at.map((each) => clocked.format(each * 1000)) }, { ...axis, size: 56, values: (_, values) => values.map((each) => told(each, unit)) }],
      series: [{}, ...lines.map(line)],
    }, data, place);
  };
  const charts = () => {
    for (const [place, plot] of plots) if (!place.isConnected || !place.contains(plot.root)) forget(place);
    for (const place of $$(".chart[data-series]")) {
      const text = place.dataset.series;
      if (plots.has(place) && place.dataset.drawn === text) continue;
      const { x, lines } = JSON.parse(text);
      const data = [x, ...lines.map((each) => each.y)];
      place.dataset.drawn = text;
      if (plots.has(place)) plots.get(place).setData(data);
      else plots.set(place, chart(place, lines, data));
    }
  };
  const recolour = () => { for (const place of [...plots.keys()]) forget(place); charts(); };
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      for (const [place, plot] of plots) plot.setSize({ width: place.clientWidth, height: HIGH });
    }, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);

  // --- light and dark --------------------------------------------------------------------------
  const THEMES = { auto: ["as the system", "dark"], dark: ["dark", "light"], light: ["light", "auto"] };
  const theme = () => root.dataset.theme || "auto";
  const themed = () => { for (const each of $$("[data-theme-is]")) write(each, THEMES[theme()][0]); };
  const next = () => {
    const chosen = THEMES[theme()][1];
    if (chosen === "auto") delete root.dataset.theme;
    else root.dataset.theme = chosen;
    document.cookie = `seawall_theme=${chosen}; path=/; max-age=31536000; samesite=lax`; // told to the server
    themed();
    recolour();
  };

  // --- whether the page is true ----------------------------------------------------------------
  // Heard is whether events come; wrong is why the page could not be drawn anew, if it could not.
  let heard = null, wrong = "";
  const mark = () => {
    if (heard === null && !wrong) return;
    const words = wrong ? `${wrong}: as of ${hour.format(asOf)}` : heard ? "live" : "reconnecting";
    for (const each of $$(".live")) {
      each.classList.toggle("on", heard === true && !wrong);
      each.classList.toggle("off", heard === false || !!wrong);
      write(each, words);
    }
  };
  const hears = (on) => { heard = on; mark(); };
  const fails = (why) => {
    if (why && !wrong) say(`${why}. This page shows how it was at ${hour.format(asOf)}.`);
    if (!why && wrong) say("The page is live again.");
    wrong = why;
    mark();
  };

  // --- staying true ----------------------------------------------------------------------------
  // What was seen is shown to all for up to two seconds: so long after the last event, look once more.
  const SOON = 400, AT_MOST_EVERY = 1000, AT_LEAST_EVERY = 5000, SEEN_FOR = 2200, PATIENCE = 30000;
  const REASONS = { 503: "the store does not answer", 404: "it is not there any more" };
  let asked = Date.now(), waiting = 0, busy = false, event = 0, typed = 0;
  const soon = (after = SOON) => {
    waiting ||= setTimeout(refresh, Math.max(after, asked + AT_MOST_EVERY - Date.now()));
  };
  // What was asked before somebody typed, or went elsewhere, answers another question.
  const place = () => `${typed} ${location.pathname}${location.search}`;
  const draw = async (answer, from) => {
    const to = answer.headers.get("hx-redirect");
    if (to) { location.assign(to); return; }
    if (!answer.ok) { fails(REASONS[answer.status] ?? `the server answers ${answer.status}`); return; }
    const text = await answer.text();
    if (from !== place() || $("dialog[open]")) { soon(); return; }
    await htmx.swap({ text, sourceElement: $("#page"), target: $("#live"), select: "#live", swap: "outerMorph" });
    fails("");
  };
  const refresh = async () => {
    waiting = 0;
    if (document.hidden || !$("#page[data-live]") || $("dialog[open]")) return;
    if (busy) { soon(); return; }
    busy = true;
    asked = Date.now();
    const from = place();
    try {
      const how = { headers: { "HX-Request": "true", Accept: "text/html" }, signal: AbortSignal.timeout(PATIENCE) };
      await draw(await fetch(location.pathname + location.search, how), from);
    } catch {
      if (!document.hidden) fails("the server does not answer");
    } finally {
      busy = false;
    }
    if (asked < event + SEEN_FOR) soon(event + SEEN_FOR - Date.now());
  };
  const KINDS = [
    "queued", "running", "retry", "redriven", "complete", "skipped", "failed", "expired", "cancelled", "missed",
  ];
  const FIRST_WAIT = 1000, LONGEST_WAIT = 30000;
  let events = null, back = 0, losses = 0;
  const hush = () => { clearTimeout(back); events?.close(); events = null; };
  const listen = () => {
    if (events || document.hidden || !$("#page[data-live]")) return;
    const made = events = new EventSource("/api/events");
    made.onopen = () => {
      if (heard === false) soon(); // something may have happened meanwhile
      losses = 0;
      hears(true);
    };
    made.onerror = () => {
      hears(false);
      if (made.readyState !== EventSource.CLOSED) return; // the browser comes back by itself
      hush();
      const most = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** losses++);
      back = setTimeout(listen, most * (0.5 + Math.random() / 2));
    };
    for (const kind of KINDS) made.addEventListener(kind, () => { event = Date.now(); soon(); });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hush();
    else { listen(); soon(); }
  });
  addEventListener("pagehide", hush);
  addEventListener("pageshow", (shown) => { if (shown.persisted) { listen(); soon(); } });
  setInterval(() => { if (Date.now() - asked >= AT_LEAST_EVERY) soon(); times(); }, 1000);

  // What somebody has typed is theirs: drawing the page anew leaves it alone (morphSkip, in its head).
  document.addEventListener("input", ({ target }) => {
    target.dataset.typed = "";
    if (target.closest("form[hx-get]")) typed += 1;
  });

  const drawn = () => {
    clock(); times(); charts(); banners(); themed(); mark();
    for (const each of $$("[data-scripted]")) each.hidden = false;
  };
  document.addEventListener("htmx:after:swap", (swapped) => {
    drawn();
    if (swapped.detail?.ctx?.target?.id === "found") say($("#found")?.dataset.told);
  });
  document.addEventListener("htmx:after:settle", drawn);

  // --- keyboard --------------------------------------------------------------------------------
  let going = false;
  const step = (by) => {
    const links = $$("table.rows tbody tr, #found > article").map((row) => $("a", row)).filter(Boolean);
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const link = links[Math.min(links.length - 1, Math.max(0, at + by))];
    link.focus({ preventScroll: true });
    link.closest("tr, article").scrollIntoView({ block: "nearest" });
  };
  const KEYS = {
    g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
    j: () => step(1),
    k: () => step(-1),
    "/": () => $("[data-first]")?.focus(),
    "?": () => $("#keys")?.showModal(),
    r: () => $("[data-act='retry']:not([disabled])")?.focus(),
  };
  document.addEventListener("keydown", (pressed) => {
    if (pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
    const typing = pressed.target.closest?.("input, select, textarea");
    const menu = pressed.target.closest?.("details.menu[open]");
    if (pressed.key === "Escape" && menu) { menu.open = false; $("summary", menu)?.focus(); return; }
    if (pressed.key === "Escape" && typing) { pressed.target.blur(); return; }
    if (typing || $("dialog[open]")) return;
    if (going) {
      going = false;
      const link = $(`.side a[data-key="${CSS.escape(pressed.key)}"]`);
      if (link) { pressed.preventDefault(); link.click(); }
      return;
    }
    if (KEYS[pressed.key]) { pressed.preventDefault(); KEYS[pressed.key](); }
  });
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-keys]")) $("#keys")?.showModal();
    if (target.closest("[data-theme-next]")) next();
    target.closest("[data-close]")?.closest(".said")?.remove();
    for (const menu of $$(".actions details.menu[open]")) if (!menu.contains(target)) menu.open = false;
  });

  const begin = () => {
    drawn();
    listen();
    const here = $(".side [aria-current]"), row = here?.closest("ul"); // on a phone they are in a row
    if (row) row.scrollLeft = here.offsetLeft - (row.clientWidth - here.clientWidth) / 2;
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
