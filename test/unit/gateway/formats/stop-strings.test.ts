import { describe, expect, test } from "vitest";
import { stopStringOrList, stopStrings } from "../../../../gateway/formats/stop-strings.ts";
import { faultOf } from "./thrown-by.ts";

describe("stop strings", () => {
  test.each([
    [undefined, []],
    [null, []],
    ["", []],
    ["END", ["END"]],
    [[], []],
    [
      ["a", "", "b"],
      ["a", "b"],
    ],
    [new Array(16).fill("x"), new Array(16).fill("x")],
  ])("%j gives %j", (value, expected) => {
    expect(stopStringOrList(value, ["stop"])).toEqual(expected);
    if (typeof value !== "string") expect(stopStrings(value, ["stop"])).toEqual(expected);
  });

  test.each([
    [7, "invalid_type", "stop"],
    [{}, "invalid_type", "stop"],
    [["a", 1], "invalid_type", "stop[1]"],
    [["a", null], "invalid_type", "stop[1]"],
    [new Array(17).fill("x"), "array_above_max_length", "stop"],
  ])("%j is refused", (value, code, param) => {
    expect(faultOf(() => stopStringOrList(value, ["stop"]))).toEqual({ code, param });
    expect(faultOf(() => stopStrings(value, ["stop"]))).toEqual({ code, param });
  });

  test.each(["", "END"])("%j is refused where they have to be an array", (value) => {
    expect(faultOf(() => stopStrings(value, ["stop_sequences"]))).toEqual({
      code: "invalid_type",
      param: "stop_sequences",
    });
  });
});
