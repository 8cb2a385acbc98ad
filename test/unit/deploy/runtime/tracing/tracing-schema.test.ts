import { expect, test } from "vitest";
import * as z from "zod";
import { checkConfig } from "../../../../../deploy/runtime/config/load-config.ts";
import { tracingSchema } from "../../../../../deploy/runtime/tracing/tracing-schema.ts";

const program = z.strictObject({ tracing: tracingSchema.optional() });
const check = (tracing?: object) => checkConfig(program, tracing ? { tracing } : {}, "program.yaml").tracing;

test("nothing is traced unless it is asked for", () => {
  expect(check()).toBeUndefined();
});

test("asking for it is enough: the collector's address may stand in the environment", () => {
  expect(check({})).toEqual({ samplingRatio: 0.01 });
});

test.each([
  ["an address that is none", { otlpEndpoint: "collector" }, "tracing.otlpEndpoint"],
  ["an address of another protocol", { otlpEndpoint: "grpc://collector:4317" }, "tracing.otlpEndpoint"],
  ["a secret in the address", { otlpEndpoint: "http://me:secret@collector:4318" }, "tracing.otlpEndpoint"],
  ["a share above all", { samplingRatio: 1.5 }, "tracing.samplingRatio"],
  ["an unknown key", { ratio: 1 }, "tracing.ratio"],
])("%s stops the start, by its path", (_, tracing, path) => {
  expect(() => check(tracing)).toThrow(`program.yaml: ${path}: `);
  expect(() => check(tracing)).not.toThrow("secret@");
});
