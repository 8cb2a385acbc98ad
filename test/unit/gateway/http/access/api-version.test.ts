import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { checkApiVersion } from "../../../../../gateway/http/access/api-version.ts";

describe("the version header", () => {
  test.each([
    ["is absent", {}],
    ["is the default", { "vendor-version": "2023-06-01" }],
    ["is another date", { "anthropic-version": "2026-10-21" }],
    ["is read by its first name only", { "vendor-version": "2023-06-01", "anthropic-version": "latest" }],
  ])("is accepted when it %s", (_, headers) => {
    expect(() => checkApiVersion(headers)).not.toThrow();
  });

  test.each([
    ["vendor-version", "x"],
    ["vendor-version", ""],
    ["vendor-version", "2023-06-01, 2026-10-21"],
    ["anthropic-version", "2026-10"],
    ["anthropic-version", "2023-06-01\n"],
  ])("is refused as %s: %j, without being quoted", (name, value) => {
    const expected = `${name}: expected a date of the form YYYY-MM-DD.`;
    expect(() => checkApiVersion({ [name]: value })).toThrow(expected);
    expect(() => checkApiVersion({ [name]: value })).toThrow(ApiError);
  });

  test("is refused by its first value though the second is a date", () => {
    expect(() => checkApiVersion({ "vendor-version": "x", "anthropic-version": "2023-06-01" })).toThrow(ApiError);
  });
});
