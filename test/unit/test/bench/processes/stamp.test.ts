import { expect, test } from "vitest";
import { STAMP_LENGTH, stamp, stampedUs } from "../../../../bench/processes/requests.ts";

test.each([0, 1, 987_654_321_012])("a stamp in a frame returns its time: %i", (timeUs) => {
  const text = `data: "${stamp(timeUs)}"`;
  expect(stamp(timeUs)).toHaveLength(STAMP_LENGTH);
  expect(stampedUs(text, text.indexOf("@"))).toBe(timeUs);
});

test("a stamp cut by a chunk's frame returns no time", () => {
  const whole = stamp(987_654_321_012);
  const cut = `${whole.slice(0, 4)}\r\n1f\r\n${whole.slice(4)}`;
  expect(stampedUs(cut, 0)).toBeUndefined();
});
