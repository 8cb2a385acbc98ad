import { describe, expect, test } from "vitest";
import { METRICS as PROBER } from "../../../../deploy/prober/prober.ts";
import type { MetricTable } from "../../../../deploy/runtime/metrics/metric-table.ts";
import { METRICS as ENGINE, SECTIONS as ENGINE_SECTIONS } from "../../../../engine/metrics/metrics.ts";
import { METRICS as GATEWAY, SECTIONS as GATEWAY_SECTIONS } from "../../../../gateway/stats/metrics.ts";

const TABLES: readonly (readonly [program: string, table: MetricTable])[] = [
  ["gateway", GATEWAY],
  ["engine", ENGINE],
  ["prober", PROBER],
];

describe.each(TABLES)("the metrics of the %s", (_program, table) => {
  const rows = Object.entries(table);

  test("the metrics of a program are counters if and only if their names have the suffix", () => {
    for (const [name, { type }] of rows) expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"]);
  });

  test("the metrics of a program stand under names of ours, of letters and underscores", () => {
    for (const [name] of rows) expect(name).toMatch(/^(?:svc|nodejs)(?:_[a-z]+)+$/);
  });

  test("the metrics of a program say in a sentence what they count, and what to do when they move", () => {
    for (const [name, { help, action }] of rows)
      for (const text of [help, action]) expect([name, text]).toEqual([name, expect.stringMatching(/^\S.+\.$/)]);
  });
});

test("no metric of the one program has the name of another one's with other labels", () => {
  const gateway = new Map(Object.entries<MetricTable[string]>(GATEWAY));
  const both = Object.entries(ENGINE).filter(([name]) => gateway.has(name));
  expect(both.length).toBeGreaterThan(0);
  for (const [name, { labels }] of both) expect([name, labels]).toEqual([name, gateway.get(name)?.labels]);
});

test.each<readonly [string, MetricTable, Readonly<Record<string, MetricTable>>]>([
  ["gateway", GATEWAY, GATEWAY_SECTIONS],
  ["engine", ENGINE, ENGINE_SECTIONS],
])("no two sections of the table of the %s have a metric of one name", (_program, table, sections) => {
  const names = Object.values(sections).flatMap((section) => Object.keys(section));
  expect(names).toEqual(Object.keys(table));
});
