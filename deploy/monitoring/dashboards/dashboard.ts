/** A unit of Grafana's in which the values of a panel are shown. */
type Unit = "short" | "s" | "percentunit" | "reqps" | "bytes" | "ops";

/** A panel of a dashboard: its queries over time, drawn as lines. */
export type Panel = {
  /** What the panel shows, as a heading of few words. */
  readonly title: string;
  /** What the panel says and what to look at when it moves, in one or two sentences. */
  readonly text: string;
  /** The unit of all values. */
  readonly unit: Unit;
  /** The queries, each with the legend of its lines, in which `{{label}}` stands for a label's value. */
  readonly queries: readonly (readonly [expr: string, legend: string])[];
  /** Whether the lines are stacked, as those of parts of a whole are. Default: they are not. */
  readonly stacked?: true;
};

/** A dashboard of Grafana's, with all that our dashboards differ in. */
export type Dashboard = {
  /** The name of its file and of its address in Grafana, behind `svc-`. */
  readonly name: string;
  /** The title of the dashboard. */
  readonly title: string;
  /** What the dashboard is for, in a sentence. */
  readonly text: string;
  /** A choice above the panels: the label by which queries are narrowed, and the metric whose values it lists. */
  readonly variables: readonly { readonly label: string; readonly title: string; readonly of: string }[];
  /** The rows of panels, each under a heading. */
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
};

/** The panels that stand beside each other, and the size of one on Grafana's grid of 24 columns. */
const PER_ROW = 3;
const WIDTH = 24 / PER_ROW;
const HEIGHT = 8;

/** The data source of all panels, which is chosen above them. */
const SOURCE = { type: "prometheus", uid: "$datasource" };

/** Returns a dashboard as Grafana reads it. */
export function grafanaJson({ name, title, text, variables, rows }: Dashboard): object {
  return {
    uid: `svc-${name}`,
    title,
    description: text,
    tags: ["svc"],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-1h", to: "now" },
    timezone: "browser",
    annotations: { list: [] },
    links: [{ type: "dashboards", tags: ["svc"], title: "svc", asDropdown: true, includeVars: true, keepTime: true }],
    templating: {
      list: [
        { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" },
        ...variables.map(variable),
      ],
    },
    panels: laidOut(rows),
  };
}

function variable({ label, title, of }: Dashboard["variables"][number]): object {
  const query = `label_values(${of}, ${label})`;
  return {
    name: label,
    label: title,
    type: "query",
    datasource: SOURCE,
    definition: query,
    query: { query, refId: label },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    // Every value, without a list of them in each query.
    allValue: ".*",
    current: { text: "All", value: "$__all" },
  };
}

/** Puts the panels on the grid, row below row. */
function laidOut(rows: Dashboard["rows"]): readonly object[] {
  const placed: object[] = [];
  let y = 0;
  let id = 1;
  for (const { title, panels } of rows) {
    placed.push({ id: id++, type: "row", title, collapsed: false, panels: [], gridPos: { x: 0, y, w: 24, h: 1 } });
    y += 1;
    for (const [at, one] of panels.entries()) {
      const column = at % PER_ROW;
      placed.push({ ...panel(one), id: id++, gridPos: { x: column * WIDTH, y, w: WIDTH, h: HEIGHT } });
      if (column === PER_ROW - 1 || at === panels.length - 1) y += HEIGHT;
    }
  }
  return placed;
}

function panel({ title, text, unit, queries, stacked }: Panel): object {
  return {
    type: "timeseries",
    title,
    description: text,
    datasource: SOURCE,
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        custom: {
          fillOpacity: stacked ? 40 : 10,
          showPoints: "never",
          stacking: { mode: stacked ? "normal" : "none" },
        },
      },
      overrides: [],
    },
    options: { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: queries.map(([expr, legendFormat], at) => ({
      refId: String.fromCharCode(65 + at),
      datasource: SOURCE,
      expr,
      legendFormat,
      range: true,
    })),
  };
}
