import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

export type Panel = {
  readonly id: number;
  readonly type: "timeseries" | "row";
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly description?: string;
  readonly datasource?: object;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly {
    readonly refId: string;
    readonly datasource: object;
    readonly expr: string;
    readonly legendFormat: string;
  }[];
};

type Board = {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly definition?: string }[];
  };
};

/** The shipped dashboard of a file, with the panels that have queries apart from the headings of rows. */
export type Dashboard = Board & { readonly name: string; readonly charts: readonly Panel[] };

const FOLDER = join(import.meta.dirname, "../../../deploy/monitoring/grafana");

export const DASHBOARDS: readonly Dashboard[] = readdirSync(FOLDER).map((file) => {
  const board: Board = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
  return { ...board, name: basename(file, ".json"), charts: board.panels.filter(({ type }) => type !== "row") };
});

/** Returns the queries of panels. */
export function queriesOf(panels: readonly Panel[]): readonly string[] {
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}
