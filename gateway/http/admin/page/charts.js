/* The charts of the last hour. Lines differ by dashes, too, and gaps are where nothing was measured. */
import { make, number, percent, put, time } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 360;
const HEIGHT = 70;

/** The charts, by title: how a value is written, and its lines by name, each with what it shows of a point. */
const CHARTS = [
  ["Tokens a second", number, [["tokens", (p) => p.tokensPerSecond]]],
  [
    "Time to the first token",
    time,
    [
      ["p50", (p) => p.p50Ms],
      ["p95", (p) => p.p95Ms],
    ],
  ],
  [
    "Prompt tokens from caches",
    percent,
    [
      ["measured", (p) => p.cachedShare],
      ["expected", (p) => p.expectedShare],
    ],
  ],
  [
    "Answers",
    number,
    [
      ["running", (p) => p.active],
      ["waiting", (p) => p.queued],
    ],
  ],
  ["Errors a second", number, [["errors", (p) => p.errorsPerSecond]]],
  ["Processor time of the gateway a token", time, [["time", (p) => p.cpuMsPerDelta]]],
];

function line(svg, second) {
  const path = document.createElementNS(SVG, "path");
  if (second) path.setAttribute("class", "second");
  svg.append(path);
  return path;
}

/** Makes the charts in `parent`. Returns what shows points, of which each spans `pointMs` milliseconds. */
export function makeCharts(parent) {
  const charts = CHARTS.map(([title, written, lines]) => {
    const figure = make("figure", parent);
    const caption = make("figcaption", figure);
    make("b", caption, title);
    const facts = make("span", caption, "", "dim");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    figure.append(svg);
    const paths = lines.map((_, at) => line(svg, at > 0));
    const chart = { title, written, lines, svg, facts, paths, points: [], at: undefined };
    svg.addEventListener("pointermove", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      chart.at = Math.round(((event.clientX - left) / width) * (WIDTH - 1));
      say(chart);
    });
    svg.addEventListener("pointerleave", () => {
      chart.at = undefined;
      say(chart);
    });
    return chart;
  });
  return (points, pointMs) => {
    for (const chart of charts) draw(chart, points, pointMs);
  };
}

/** Places points by their time, the newest at the right end, and draws the lines. */
function draw(chart, points, pointMs) {
  const newest = points.at(-1)?.atMs ?? 0;
  chart.points = new Array(WIDTH);
  for (const point of points) {
    const at = WIDTH - 1 - Math.round((newest - point.atMs) / pointMs);
    if (at >= 0) chart.points[at] = point;
  }
  const values = chart.lines.flatMap(([, of]) => points.map(of)).filter((value) => value !== undefined);
  const top = chart.written === percent ? 1 : Math.max(...values, 1e-9);
  for (const [index, [, of]] of chart.lines.entries()) {
    let d = "";
    let drawn = false;
    for (let at = 0; at < WIDTH; at += 1) {
      const value = chart.points[at] && of(chart.points[at]);
      if (value !== undefined) {
        const y = (HEIGHT - 2 - (HEIGHT - 4) * (value / top)).toFixed(1);
        // A point between two gaps is a short line: a line of no length would not be seen.
        d += drawn ? `L${at} ${y}` : `M${at - 0.5} ${y}L${at} ${y}`;
      }
      drawn = value !== undefined;
    }
    chart.paths[index].setAttribute("d", d);
  }
  say(chart);
}

/** Writes the newest values, or those under the pointer, with their time. */
function say(chart) {
  const { title, written, lines, facts, svg, points, at } = chart;
  const point = at === undefined ? points.at(-1) : points[Math.min(WIDTH - 1, Math.max(0, at))];
  const values = lines.map(([name, of]) => `${lines.length > 1 ? `${name} ` : ""}${written(point && of(point))}`);
  const when = at !== undefined && point ? `, ${new Date(point.atMs).toLocaleTimeString()}` : "";
  put(facts, ` ${values.join(", ")}${when}`);
  svg.setAttribute("aria-label", `${title}, last hour; now ${values.join(", ")}`);
}
