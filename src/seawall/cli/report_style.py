"""How the page of a report looks: light and dark, on paper and on a telephone."""

STYLE = """
:root { color-scheme: light dark; --ground: #fbfbfa; --card: #fff; --ink: #1d2733;
  --soft: #66727f; --line: #e3e6ea; --good: #2f9e6e; --skip: #8fa3b8; --bad: #d1495b;
  --warn: #c98a1b; --main: #3273b8; --light: #a9c8e8; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181d; --card: #1c2229; --ink: #e4e9ee;
  --soft: #98a4b0; --line: #2d353e; --good: #3a9d6e; --skip: #6b7f94; --bad: #d95868;
  --warn: #c98f2c; --main: #4f8fd0; --light: #345778; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .75rem; }
p { margin: .35rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.status { display: inline-block; padding: .1rem .6rem; border-radius: 1rem; color: #fff;
  font-size: .85rem; vertical-align: middle; background: var(--main); }
.completed { background: var(--good); } .failed, .aborted { background: var(--bad); }
.partial_success, .paused, .cancelled { background: var(--warn); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; }
.card, section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
.card { padding: .7rem .9rem; } .card b { display: block; font-size: 1.25rem; font-weight: 600;
  white-space: nowrap; }
section { padding: 1.1rem 1.2rem; margin: 1rem 0; overflow-x: auto; break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
svg + table { margin-top: 1rem; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .3rem .8rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.t { white-space: nowrap; }
td.w { overflow-wrap: anywhere; min-width: 14rem; }
code { font: .85em ui-monospace, monospace; }
svg { width: 100%; height: auto; min-width: 34rem; display: block; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); }
.good { fill: var(--good); } .skip { fill: var(--skip); } .bad { fill: var(--bad); }
.warn { fill: var(--warn); } .main { fill: var(--main); } .light { fill: var(--light); }
.rest { fill: var(--line); } .rule { stroke: var(--line); }
.key { margin-top: .75rem; } .key span { display: inline-block; margin-right: 1rem; }
.key i { display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem;
  margin-right: .35rem; }
"""
