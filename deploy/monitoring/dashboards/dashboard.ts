type Unit = "short" | "s" | "percentunit" | "reqps" | "bytes" | "ops";

export type Panel = {
  readonly title: string;
  readonly text: string;
  readonly unit: Unit;
  /** The queries, each with the legend of its lines; `{{label}}` stands for a label's value. */
  readonly queries: readonly (readonly [expr: string, legend: string])[];
  /** Whether the lines are stacked, for parts of a whole. Default: they are not. */
  readonly stacked?: true;
};

export type Dashboard = {
  /** Name of its file and, after `svc-`, of its address in Grafana. */
  readonly name: string;
  readonly title: string;
  readonly text: string;
  /** Selectors above the panels: the label that narrows the queries, and the metric whose values it lists. */
  readonly variables: readonly { readonly label: string; readonly title: string; readonly of: string }[];
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
};

/** Panels per row, and the size of one on Grafana's grid of 24 columns. */
const PER_ROW = 3;
const WIDTH = 24 / PER_ROW;
const HEIGHT = 8;

/** The data source of all panels, which is selected above them. */
const SOURCE = { type: "prometheus", uid: "$datasource" };

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

/** Returns the query for what a counter gained per second, summed over all labels but those of `by`. */
export function rate(counter: string, by: readonly string[], matchers = ""): string {
  const sum = by.length > 0 ? `sum by (${by.join(", ")}) ` : "sum";
  return `${sum}(rate(${counter}${matchers && `{${matchers}}`}[$__rate_interval]))`;
}

/** Returns the query for the share that the series of `part` have in the rate of those of `whole`. */
export function share(counter: string, by: readonly string[], part: string, whole: string): string {
  return `${rate(counter, by, part)} / ${rate(counter, by, whole)}`;
}

/** Returns the query for a quantile of a histogram; `by` are the labels that distinguish the lines. */
export function quantile(share: number, histogram: string, by: readonly string[], matchers = ""): string {
  return `histogram_quantile(${share}, ${rate(`${histogram}_bucket`, ["le", ...by], matchers)})`;
}
