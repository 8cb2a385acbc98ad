import { describe, expect, test } from "vitest";
import * as z from "zod";
import { checked, unchecked } from "../../../../gateway/formats/checked.ts";
import { errorObjectA } from "../../../../gateway/formats/error-envelope.ts";
import { faultOf, thrownBy } from "./thrown-by.ts";

const part = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string().min(1) }),
  z.object({ type: z.literal("image"), url: z.string().regex(/^data:/, "expected a data URL.") }),
]);

const schema = z.strictObject({
  name: z.string().max(3),
  count: z.int().min(1).max(9).nullish(),
  share: z.number().min(0).nullish(),
  kind: z.enum(["a", "b"]).nullish(),
  stored: z.literal(false, "Nothing is stored.").nullish(),
  gone: z.null("Send it all.").optional(),
  parts: z.union([z.string(), z.array(part).min(1).max(2)], "a string or an array of parts").nullish(),
  flag: z.strictObject({ on: z.boolean() }).nullish(),
  hint: unchecked(z.object({ ttl: z.enum(["5m"]) })),
  free: z.unknown().optional(),
});

const body = { name: "abc" };

test.each([
  [{}],
  [{ count: null, share: null, kind: null, stored: null, gone: null, parts: null, flag: null }],
  [{ count: 9, share: 0.5, kind: "b", stored: false, parts: "" }],
  [{ parts: [{ type: "text", text: "a", more: 1 }], flag: { on: false } }],
  [{ hint: 7, free: [{}] }],
  [{ name: "😀😀😀" }],
])("%j passes and is returned unchanged", (fields) => {
  const value = { ...body, ...fields };
  expect(checked(schema, value)).toBe(value);
  expect(schema.safeParse(value).success).toBe(true);
});

describe("faults", () => {
  test.each([
    [{ name: null }, "missing_required_parameter", "name"],
    [{ name: 1 }, "invalid_type", "name"],
    [{ name: "abcd" }, "string_above_max_length", "name"],
    [{ name: "😀😀😀😀" }, "string_above_max_length", "name"],
    [{ count: "1" }, "invalid_type", "count"],
    [{ count: 1.5 }, "invalid_type", "count"],
    [{ count: 0 }, "integer_below_min_value", "count"],
    [{ count: 10 }, "integer_above_max_value", "count"],
    [{ count: 1e21 }, "integer_above_max_value", "count"],
    [{ share: -0.5 }, "decimal_below_min_value", "share"],
    [{ share: Number.POSITIVE_INFINITY }, "invalid_type", "share"],
    [{ kind: "c" }, "invalid_value", "kind"],
    [{ kind: "constructor" }, "invalid_value", "kind"],
    [{ kind: 1 }, "invalid_type", "kind"],
    [{ stored: true }, "unsupported_value", "stored"],
    [{ gone: "x" }, "unsupported_parameter", "gone"],
    [{ parts: 1 }, "invalid_type", "parts"],
    [{ parts: [] }, "empty_array", "parts"],
    [{ parts: [1, 2, 3] }, "array_above_max_length", "parts"],
    [{ parts: [null] }, "invalid_type", "parts[0]"],
    [{ parts: [{}] }, "missing_required_parameter", "parts[0].type"],
    [{ parts: [{ type: 1 }] }, "invalid_type", "parts[0].type"],
    [{ parts: [{ type: "video" }] }, "invalid_value", "parts[0].type"],
    [{ parts: [{ type: "text", text: "" }] }, "invalid_value", "parts[0].text"],
    [
      {
        parts: [
          { type: "text", text: "a" },
          { type: "image", url: "x" },
        ],
      },
      "invalid_value",
      "parts[1].url",
    ],
    [{ flag: "yes" }, "invalid_type", "flag"],
    [{ flag: { on: 1 } }, "invalid_type", "flag.on"],
    [{ flag: { on: true, off: 1 } }, "unknown_parameter", "flag.off"],
    [{ more: 1 }, "unknown_parameter", "more"],
  ])("%j is refused", (fields, code, param) => {
    const value = { ...body, ...fields };
    expect(faultOf(() => checked(schema, value))).toEqual({ code, param });
    expect(schema.safeParse(value).success).toBe(false);
  });

  test("the first faulty field of the schema is named, and unknown keys last", () => {
    const value = { more: 1, flag: 1, kind: "c", count: 0, name: "abc" };
    expect(faultOf(() => checked(schema, value)).param).toBe("count");
    expect(faultOf(() => checked(schema, {})).param).toBe("name");
  });

  test("the message of the schema becomes part of the error", () => {
    const messageOf = (fields: object) => errorObjectA(thrownBy(() => checked(schema, { ...body, ...fields }))).message;
    expect(messageOf({ parts: 1 })).toBe(
      "Invalid type for 'parts': expected a string or an array of parts, but got an integer instead.",
    );
    expect(messageOf({ stored: true })).toBe("Unsupported value: 'stored'. Nothing is stored.");
    expect(messageOf({ gone: 1 })).toBe("Unsupported parameter: 'gone' is not supported. Send it all.");
    expect(messageOf({ kind: "c" })).toBe("Invalid value for 'kind'. Supported values are: 'a', 'b'.");
  });

  test("an unsupported kind of schema is refused when it is first used", () => {
    expect(() => checked(z.date(), new Date())).toThrow("no check for schemas of the type date");
    expect(() => checked(z.string().startsWith("a").trim(), "a")).toThrow("no rule for overwrite");
  });
});
