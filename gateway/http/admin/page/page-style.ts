/** Of the admin page. Colours carry no meaning alone: every state is a word, too. */
export const PAGE_STYLE = `
:root {
  --back: #f6f7f9; --card: #fff; --text: #1c2128; --dim: #5d6673; --line: #dfe3e8;
  --good: #1a7f4b; --warn: #9a6200; --bad: #c2291d; --ink: #3a6fd8; --fill: #d9e4fa;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171b; --card: #1c2026; --text: #e4e7eb; --dim: #98a1ad; --line: #2d333b;
    --good: #4cc38a; --warn: #e0a63a; --bad: #ff7b6e; --ink: #7aa5f7; --fill: #263a5e;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 16px 20px 40px; max-width: 1400px; background: var(--back); color: var(--text);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
h1, h2 { margin: 0; font-size: 18px; font-weight: 650; }
h2 { font-size: 15px; }
a { color: var(--ink); text-decoration: none; }
a:hover { text-decoration: underline; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; }
nav { margin-left: auto; display: flex; gap: 14px; }
.dim { color: var(--dim); }
.badge { padding: 1px 9px; border-radius: 10px; border: 1px solid currentColor; font-size: 12px; font-weight: 600; }
.good { color: var(--good); }
.warn { color: var(--warn); }
.bad { color: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); gap: 10px; margin: 16px 0; }
dl > div, section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
dl > div { padding: 8px 12px; }
dt { color: var(--dim); font-size: 12px; }
dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
form { display: flex; flex-wrap: wrap; gap: 8px 20px; margin: 0 0 12px; color: var(--dim); font-size: 13px; }
form label { display: flex; align-items: center; gap: 6px; }
input[type="search"] {
  width: 200px; padding: 3px 8px; border: 1px solid var(--line); border-radius: 6px; background: var(--card);
  color: var(--text); font: inherit;
}
input { accent-color: var(--ink); }
:focus-visible { outline: 2px solid var(--ink); outline-offset: 1px; }
section { margin-bottom: 14px; overflow: hidden; }
.head { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 20px; padding: 9px 14px; }
.head .fact { font-variant-numeric: tabular-nums; white-space: nowrap; }
.head .fact b { font-weight: 600; }
.head svg { flex: 1 1 60px; min-width: 0; max-width: 160px; height: 26px; margin-left: auto; }
polyline { fill: none; stroke: var(--ink); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 14px; border-top: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--dim); font-weight: 500; font-size: 12px; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), th:nth-child(3), td:nth-child(3) { text-align: left; }
td:first-child { font-family: ui-monospace, "SF Mono", Menlo, "Liberation Mono", monospace; font-size: 12.5px; }
tbody tr:hover { background: color-mix(in srgb, var(--ink) 7%, transparent); }
.load { display: inline-flex; align-items: center; justify-content: flex-end; gap: 8px; }
.bar { width: 72px; height: 8px; border-radius: 4px; background: var(--line); overflow: hidden; }
.bar i { display: block; height: 100%; width: 0; background: var(--ink); }
.bar i.full { background: var(--warn); }
.none { padding: 6px 14px 10px; }
@media (max-width: 700px) {
  body { padding: 12px 10px 30px; }
  nav { margin-left: 0; }
  dl { grid-template-columns: repeat(auto-fill, minmax(105px, 1fr)); gap: 6px; }
  dd { font-size: 16px; }
  th, td { padding: 3px 8px; }
  .head svg { display: none; }
}
`;
