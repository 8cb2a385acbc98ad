/* The charts. Lines also differ by dashes, and a gap has no measurement. */
import { clockTime, make, number, percent, put, time } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 90;

/** The charts, by title: the format of a value, and the lines by name, each with its value of a point. */
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
    "Answers",
    number,
    [
      ["running", (p) => p.active],
      ["waiting", (p) => p.queued],
    ],
  ],
  ["Errors a second", number, [["errors", (p) => p.errorsPerSecond]]],
  [
    "Prompt tokens from caches",
    percent,
    [
      ["measured", (p) => p.cachedShare],
      ["expected", (p) => p.expectedShare],
    ],
  ],
  ["Processor time of the gateway a token", time, [["time", (p) => p.cpuMsPerDelta]]],
];

/** The lowest top of an axis, so that a chart of zeros has one. */
const LEAST_TOP = 1;

/** Returns the round number at or above `value`: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value * 0.999_999) * power;
}

function path(svg, cls) {
  const node = document.createElementNS(SVG, "path");
  if (cls) node.setAttribute("class", cls);
  svg.append(node);
  return node;
}

/** Creates the charts in `parent`. Returns a function that shows the last `count` points of `pointMs` each. */
export function makeCharts(parent) {
  const charts = CHARTS.map(([title, written, lines]) => {
    const figure = make("figure", parent);
    const caption = make("figcaption", figure);
    make("b", caption, title);
    const legend = lines.map(([name], at) => {
      const item = make("span", caption, "", "legend");
      const sample = document.createElementNS(SVG, "svg");
      sample.setAttribute("viewBox", "0 0 22 8");
      sample.setAttribute("aria-hidden", "true");
      item.append(sample);
      path(sample, at > 0 ? "second" : "").setAttribute("d", "M0 4L22 4");
      const text = make("span", item);
      return { name: lines.length > 1 ? `${name} ` : "", text };
    });
    const when = make("span", caption, "", "when dim");
    const plot = make("div", figure, undefined, "plot");
    const ticks = [1, 0.5, 0].map(() => make("span", plot, "", "tick"));
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    plot.append(svg);
    const grid = path(svg, "grid");
    const paths = lines.map((_, at) => path(svg, at > 0 ? "second" : ""));
    const times = make("div", plot, undefined, "times");
    const [first, middle, last] = ["", "", ""].map(() => make("span", times));
    const chart = { title, written, lines, legend, when, ticks, svg, grid, paths, first, middle, last, points: [] };
    svg.addEventListener("pointermove", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      chart.at = Math.round(((event.clientX - left) / width) * (chart.points.length - 1));
      say(chart);
    });
    svg.addEventListener("pointerleave", () => {
      chart.at = undefined;
      say(chart);
    });
    return chart;
  });
  return (points, pointMs, count) => {
    for (const chart of charts) draw(chart, points, pointMs, count);
  };
}

/** Places points by their time, the newest at the right end, and draws the axes and lines. */
function draw(chart, points, pointMs, count) {
  const newest = points.at(-1)?.atMs ?? Date.now();
  chart.points = new Array(count);
  for (const point of points) {
    const at = count - 1 - Math.round((newest - point.atMs) / pointMs);
    if (at >= 0) chart.points[at] = point;
  }
  chart.span = count * pointMs === 3_600_000 ? "last hour" : `last ${(count * pointMs) / 60_000} minutes`;
  chart.svg.setAttribute("viewBox", `0 0 ${count - 1} ${HEIGHT}`);
  chart.grid.setAttribute("d", [0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) => `M0 ${y}L${count - 1} ${y}`).join(""));
  const values = chart.lines
    .flatMap(([, of]) => chart.points.map((point) => point && of(point)))
    .filter(Number.isFinite);
  const top = chart.written === percent ? 1 : roundUp(Math.max(...values, LEAST_TOP));
  for (const [at, share] of [1, 0.5, 0].entries()) put(chart.ticks[at], share === 0 ? "0" : chart.written(share * top));
  put(chart.first, clockTime(newest - (count - 1) * pointMs));
  put(chart.middle, clockTime(newest - ((count - 1) * pointMs) / 2));
  put(chart.last, clockTime(newest));
  for (const [index, [, of]] of chart.lines.entries()) {
    let d = "";
    let drawn = false;
    for (let at = 0; at < count; at += 1) {
      const value = chart.points[at] && of(chart.points[at]);
      const measured = Number.isFinite(value);
      if (measured) {
        const y = (HEIGHT - 1 - (HEIGHT - 2) * (value / top)).toFixed(1);
        // A point between two gaps is a short line: a line of no length would not be seen.
        d += drawn ? `L${at} ${y}` : `M${at - 0.5} ${y}L${at} ${y}`;
      }
      drawn = measured;
    }
    chart.paths[index].setAttribute("d", d);
  }
  say(chart);
}

/** Writes the newest values, or those under the pointer, with their time. */
function say({ title, written, lines, legend, when, span, svg, points, at }) {
  const point = points[at === undefined ? points.length - 1 : Math.min(points.length - 1, Math.max(0, at))];
  const values = lines.map(([, of], index) => `${legend[index].name}${written(point && of(point))}`);
  for (const [index, value] of values.entries()) put(legend[index].text, value);
  put(when, at === undefined ? "now" : point ? clockTime(point.atMs) : "");
  svg.setAttribute("aria-label", `${title}, ${span}; now ${values.join(", ")}`);
}
