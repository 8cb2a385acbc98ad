import { expect, test } from "vitest";
import { CallDepth } from "../../../../../engine/tool-calls/readers/call-depth.ts";

test.each([
  ["", 0],
  ["a <f=b", 1],
  ["a <f=b </f> c", 0],
  ["</f> <f= <f= </f>", 1],
  ["<f=</f></f><f=", 1],
  ["<f <f", 0],
])("counts the open calls after %j, however it is split", (text, depth) => {
  for (let at = 0; at <= text.length; at += 1) {
    const calls = new CallDepth("<f=", "</f>");
    calls.push(text.slice(0, at));
    expect(calls.behind(text.slice(at))).toBe(depth);
    for (const char of text.slice(at)) calls.push(char);
    expect(calls.behind("")).toBe(depth);
  }
});
