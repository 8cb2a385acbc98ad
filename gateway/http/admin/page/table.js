/* The values of the page and its tables: everything is written as text, and only if it has changed. */
import { make } from "./dom.js";

/** Sets the text of an element if it has changed. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets the class of an element if it has changed. */
export function paint(node, cls) {
  if (node.className !== cls) node.className = cls;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** A number, with one decimal place if it is small and fractional. */
export function number(n) {
  if (n === undefined || n === null) return "–";
  return (n % 1 !== 0 && Math.abs(n) < 10 ? tenth : whole).format(n);
}

export const percent = (share) => (share === undefined ? "–" : `${whole.format(100 * share)} %`);
export const mebibytes = (bytes) => `${whole.format(bytes / 1_048_576)} MiB`;

/** A latency in words. */
export function time(ms) {
  if (ms === undefined || ms === null) return "–";
  if (ms < 10) return `${tenth.format(ms)} ms`;
  return ms < 1_000 ? `${whole.format(ms)} ms` : `${tenth.format(ms / 1_000)} s`;
}

/** The time of the day, with the date if it is not the day of `nowMs`. */
export function clockTime(ms, nowMs = Date.now()) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return at.toDateString() === new Date(nowMs).toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

/** A long time in words, in its two largest units. */
export function span(ms) {
  const s = Math.floor(ms / 1_000);
  const d = Math.floor(s / 86_400);
  const h = Math.floor(s / 3_600) % 24;
  const m = Math.floor(s / 60) % 60;
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

/**
 * A table whose rows are made once and changed only where a value did. A column is `[name, title, value of an item,
 * class of it]`; a value may also be a function that shows itself in its cell. A column whose name begins with a plus is
 * hidden on narrow screens.
 */
export class Table {
  constructor(table, columns) {
    this.columns = columns;
    const head = make("tr", make("thead", table));
    for (const [name, title] of columns) {
      const cell = make("th", head, name.replace(/^\+/, ""), name.startsWith("+") ? "more" : "");
      cell.scope = "col";
      if (title) cell.title = title;
    }
    this.body = make("tbody", table);
    this.rows = new Map();
  }

  /** Shows these items, each under its key, in their order; removes the rows of others. */
  show(items) {
    for (const [key, { tr }] of this.rows)
      if (!items.has(key)) {
        tr.remove();
        this.rows.delete(key);
      }
    let before = null;
    for (const [key, item] of items) {
      const row = this.rows.get(key) ?? this.#make(key);
      for (const [at, [, , value, cls]] of this.columns.entries()) {
        const shown = value(item);
        if (typeof shown === "function") shown(row.cells[at]);
        else put(row.cells[at], String(shown));
        if (cls) paint(row.cells[at], `${cls(item)}${row.more[at]}`);
      }
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== row.tr) this.body.insertBefore(row.tr, place);
      before = row.tr;
    }
  }

  #make(key) {
    const tr = make("tr", this.body);
    const more = this.columns.map(([name]) => (name.startsWith("+") ? " more" : ""));
    const row = { tr, more, cells: more.map((cls) => make("td", tr, undefined, cls.trim())) };
    this.rows.set(key, row);
    return row;
  }
}
