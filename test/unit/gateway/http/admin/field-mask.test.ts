import { expect, test } from "vitest";
import { maskFields, parseFieldMask } from "../../../../../gateway/http/admin/field-mask.ts";

const DUMP = {
  limits: { burst: 10, prefix: "x" },
  clusters: [{ model: "m", type: "static" }, { model: "n" }],
  port: 1,
};

test.each<readonly [mask: string, shown: unknown]>([
  ["port", { port: 1 }],
  ["limits", { limits: { burst: 10, prefix: "x" } }],
  ["limits.burst,port", { limits: { burst: 10 }, port: 1 }],
  ["limits,limits.burst", { limits: { burst: 10, prefix: "x" } }],
  ["clusters.model", { clusters: [{ model: "m" }, { model: "n" }] }],
  ["nothing,clusters.nothing", { clusters: [{}, {}] }],
  ["toString", {}],
])("%s shows what it names", (mask, shown) => {
  expect(maskFields(DUMP, parseFieldMask(mask) ?? [])).toEqual(shown);
});

test.each(["", ".", "a.", "a,,b", "a b", "a[0]", "x".repeat(501)])("%j is no mask", (mask) => {
  expect(parseFieldMask(mask)).toBeUndefined();
});
