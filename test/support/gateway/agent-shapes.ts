import { expect } from "vitest";
import type { PostPath } from "../requests/minimal-bodies.ts";
import type { ScriptedService } from "./scripted-service.ts";

/** Fields that a client sends in addition to the minimal body, and their form in the engine's request. */
export type Shape = readonly [name: string, fields: object, engineSees: object];

export async function expectTaken(
  service: ScriptedService,
  path: PostPath,
  fields: object,
  engineSees: object,
): Promise<void> {
  expect(JSON.stringify(await service.reply(path, fields))).toContain("Hello.");
  expect(service.lastRequest()).toMatchObject(engineSees);
  expect(await service.stream(path, fields)).toContain("Hello.");
}

export const ONE_PATH = {
  type: "object",
  properties: { path: { type: "string" } },
  required: ["path"],
  additionalProperties: false,
} as const;

export const EVERY_KEYWORD = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    path: { type: "string", minLength: 1, maxLength: 64, pattern: "^[a-z]+$", default: "a" },
    when: { type: ["string", "null"], format: "date-time" },
    lines: { type: "array", items: { type: "integer", minimum: 0, maximum: 9 }, minItems: 1, maxItems: 3 },
    mode: { enum: ["fast", "slow"] },
    kind: { const: "file" },
    ratio: { type: "number", exclusiveMinimum: 0 },
    names: { type: "object", propertyNames: { pattern: "^x" }, additionalProperties: { type: "string" } },
    either: { anyOf: [{ type: "string" }, { type: "integer" }] },
    one: { oneOf: [{ type: "string" }, { type: "boolean" }] },
    both: { allOf: [{ type: "object" }, { properties: { a: { type: "string" } } }] },
  },
  required: ["path"],
  additionalProperties: false,
  "x-vendor-hint": { unknown: true },
};
