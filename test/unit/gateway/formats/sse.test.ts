import { describe, expect, test } from "vitest";
import { filled, frame, framePieces, HOLE, openFrame } from "../../../../gateway/formats/sse.ts";

describe("server-sent events", () => {
  test("an event has an event line only if it has a name", () => {
    expect(frame(undefined, "{}")).toBe("data: {}\n\n");
    expect(frame("ping", "{}")).toBe("event: ping\ndata: {}\n\n");
  });

  test.each([["plain"], ["line\nbreaks\r\nand \u2028 \u0000"], ['"quoted" \\ back'], ["😀 ünïcode"], [HOLE]])(
    "filling in %j gives the same as formatting the whole",
    (text) => {
      const open = openFrame("delta", { a: 1, b: { text: HOLE }, c: null });
      expect(filled(open, text)).toBe(frame("delta", JSON.stringify({ a: 1, b: { text }, c: null })));
    },
  );

  test("no text can end its event early", () => {
    const event = filled(openFrame(undefined, { text: HOLE }), "a\n\ndata: [DONE]\n\n");
    expect(event.split("\n\n")).toHaveLength(2);
  });

  test("several holes give one more piece, numbers included", () => {
    const [first, second, third] = framePieces("delta", { text: HOLE, n: HOLE });
    expect(`${first}"hi"${second}7${third}`).toBe('event: delta\ndata: {"text":"hi","n":7}\n\n');
  });

  test.each([[{ a: 1 }], [{ a: HOLE, b: HOLE }]])("a template without exactly one hole throws", (template) => {
    expect(() => openFrame(undefined, template)).toThrow(TypeError);
  });
});
