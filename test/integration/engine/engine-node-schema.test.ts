import { expect, test } from "vitest";
import type { EngineServerOptions } from "../../../engine/server.ts";
import { nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { workHere } from "../../support/engine/work-here.ts";
import { blockEnd, delta, finished, started, textStart, toolCallStart } from "../../support/events/events.ts";
import { eventually } from "../../support/eventually.ts";
import { latch } from "../../support/latch.ts";
import { generateRequest, toolOf } from "../../support/requests/generate-request.ts";

const SCHEMA = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };

const constraint = (strict: boolean) => ({
  kind: { $case: "jsonSchema" as const, value: { name: "answer", schemaJson: JSON.stringify(SCHEMA), strict } },
});

test("an answer and arguments that violate their schema are counted and logged, and not an error", async () => {
  const { node, client } = await nodeOf(
    scripted(async function* () {
      yield [started(), textStart(0), delta(0, '{"n":"canary'), delta(0, '"}'), blockEnd(0)];
      yield [toolCallStart(1, "set"), delta(1, "{}"), blockEnd(1), toolCallStart(2, "set"), delta(2, '{"n":1}')];
      yield [blockEnd(2), finished()];
    }),
  );
  const request = generateRequest({ outputConstraint: constraint(false), tools: [toolOf("set", SCHEMA)] });
  expect((await client.generate(request).ended).code).toBe(0);
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ outcome: "ok", schema_mismatches: 2 }));
  expect(JSON.stringify(node.lines)).not.toContain("canary");
  const text = await node.metrics.registry.getSingleMetricAsString("svc_engine_schema_mismatches_total");
  expect(text).toMatch(/part="answer"\} 1/);
  expect(text).toMatch(/part="arguments"\} 1/);
});

test.each([
  ["a backend that enforces strict schemas", true, 13],
  ["a backend that does not", false, 0],
])("an answer that violates a strict schema, from %s", async (_who, holdsStrict, status) => {
  const backend = scripted(() => [[started(), textStart(0), delta(0, "{}"), blockEnd(0), finished()]]);
  const { node, client } = await nodeOf(Object.assign(backend, { holdsStrict }));
  const reading = client.generate(generateRequest({ outputConstraint: constraint(true) }));
  expect((await reading.ended).code).toBe(status);
  expect(reading.finished()).toBe(status === 0);
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ schema_mismatches: 1 }));
});

test("an answer that waits for its check sends heartbeats", async () => {
  const turn = latch();
  const work: EngineServerOptions["work"] = {
    moves: 7,
    run: async (kind, input, order) => {
      order.onMove?.();
      order.onMove?.();
      await turn.passed;
      const { tenant, signal } = order;
      return workHere.run(kind, input, { tenant, signal });
    },
  };
  const backend = scripted(() => [
    [started(), textStart(0), delta(0, '{"n":')],
    [delta(0, "1}"), blockEnd(0), finished()],
  ]);
  const { client } = await nodeOf(Object.assign(backend, { holdsStrict: true }), { work });
  const reading = client.generate(generateRequest({ outputConstraint: constraint(true) }));
  await reading.seen("progress");
  expect(reading.finished()).toBe(false);
  turn.open();
  expect((await reading.ended).code).toBe(0);
  expect([reading.legal(), reading.finished()]).toEqual([true, true]);
  expect(reading.events.filter(({ kind }) => kind?.$case === "progress")).toHaveLength(1);
});
