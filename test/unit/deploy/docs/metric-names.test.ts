import { describe, expect, test } from "vitest";
import { engineRegistry, gatewayRegistry } from "../../../../deploy/docs/live-registries.ts";
import { metricsOf } from "../../../../deploy/docs/metrics-page.ts";

const OF_PROGRAMS = [
  ["gateway", gatewayRegistry()],
  ["engine", engineRegistry()],
] as const;

describe.each(OF_PROGRAMS)("the metrics of the %s", (_program, registry) => {
  const ours = metricsOf(registry);

  test("are counters if and only if their names have the suffix", () => {
    for (const { name, type } of ours) expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"]);
  });

  test("stand under names of ours, of letters and underscores", () => {
    for (const { name } of ours) expect(name).toMatch(/^(?:svc|nodejs)(?:_[a-z]+)+$/);
  });
});

test("no metric of the one program has the name of another one's with other labels", () => {
  const gateway = new Map(metricsOf(gatewayRegistry()).map(({ name, labels }) => [name, labels]));
  const both = metricsOf(engineRegistry()).filter(({ name }) => gateway.has(name));
  for (const { name, labels } of both) expect([name, labels]).toEqual([name, gateway.get(name)]);
});
