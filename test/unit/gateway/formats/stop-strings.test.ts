import { expect, test } from "vitest";
import { chatRequest } from "../../../../gateway/formats/chat/schema.ts";
import { checked } from "../../../../gateway/formats/checked.ts";
import { stopStrings } from "../../../../gateway/formats/fields.ts";
import { messagesRequest } from "../../../../gateway/formats/messages/schema.ts";
import { faultOf } from "./thrown-by.ts";

const { stop } = chatRequest.shape;
const { stop_sequences: list } = messagesRequest.shape;

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
  expect(stopStrings(checked(stop, value, ["stop"]))).toEqual(expected);
  if (typeof value !== "string") expect(stopStrings(checked(list, value, ["stop"]))).toEqual(expected);
});

test.each([
  [7, "invalid_type", "stop"],
  [{}, "invalid_type", "stop"],
  [["a", 1], "invalid_type", "stop[1]"],
  [["a", null], "invalid_type", "stop[1]"],
  [new Array(17).fill("x"), "array_above_max_length", "stop"],
])("%j is refused", (value, code, param) => {
  expect(faultOf(() => checked(stop, value, ["stop"]))).toEqual({ code, param });
  expect(faultOf(() => checked(list, value, ["stop"]))).toEqual({ code, param });
});

test.each(["", "END"])("%j is refused where stop strings have to be an array", (value) => {
  expect(faultOf(() => checked(list, value, ["stop_sequences"]))).toEqual({
    code: "invalid_type",
    param: "stop_sequences",
  });
});
