import { describe, expect, test } from "vitest";
import { CACHE_TTLS, cacheBreakpoint, cacheTtl } from "../../../../gateway/formats/fields.ts";

describe("cache control", () => {
  test("every name stands for its duration", () => {
    expect(CACHE_TTLS.map((name) => cacheTtl(name)?.seconds)).toEqual([300, 1800, 3600, 21600, 86400]);
  });

  test.each([["2h"], [""], ["5M"], ["constructor"]])("%j is not a name", (name) => {
    expect(cacheTtl(name)).toBeUndefined();
  });

  test.each([
    [{ type: "ephemeral" }, { ttl: undefined }],
    [{ type: "ephemeral", ttl: "1h" }, { ttl: { seconds: 3600, nanos: 0 } }],
    [{ type: "ephemeral", ttl: "9h" }, { ttl: undefined }],
    [{ type: "ephemeral", ttl: 5 }, { ttl: undefined }],
    [null, undefined],
    [undefined, undefined],
    [true, undefined],
    ["ephemeral", undefined],
  ])("%j marks %j", (value, expected) => {
    expect(cacheBreakpoint(value)).toEqual(expected);
  });
});
