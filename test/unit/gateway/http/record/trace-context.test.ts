import { describe, expect, test } from "vitest";
import {
  type HeadSampler,
  isSampled,
  traceContextOf,
  traceHeaders,
  underSpan,
} from "../../../../../gateway/http/record/trace-context.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
/** Ids that show their requested length. */
const newId = (bytes: number) => "ab".repeat(bytes);
const FRESH = { traceId: newId(16), parentId: undefined, spanId: newId(8), flags: "00", state: undefined };

const contextOf = (headers: Parameters<typeof traceContextOf>[0], headSampler?: HeadSampler) =>
  traceContextOf(headers, headSampler, newId);

describe("traceparent", () => {
  test("a valid one is continued under a span of our own", () => {
    const context = contextOf({ traceparent: `00-${TRACE}-${PARENT}-01` });
    expect(context).toEqual({ traceId: TRACE, parentId: PARENT, spanId: newId(8), flags: "01", state: undefined });
    expect(traceHeaders(context)).toEqual({ traceparent: `00-${TRACE}-${newId(8)}-01` });
  });

  test("a later version is read in the form of this version", () => {
    const context = contextOf({ traceparent: `cc-${TRACE}-${PARENT}-03-what-comes-later` });
    expect(context).toMatchObject({ traceId: TRACE, flags: "03" });
    expect(traceHeaders(context).traceparent).toBe(`00-${TRACE}-${newId(8)}-03`);
  });

  test.each([
    ["absent", undefined],
    ["empty", ""],
    ["given twice", [`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`]],
    ["joined by Node", `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`],
    ["version ff", `ff-${TRACE}-${PARENT}-01`],
    ["version 00 with more behind it", `00-${TRACE}-${PARENT}-01-more`],
    ["a later version with more, but without a dash", `01-${TRACE}-${PARENT}-01more`],
    ["upper case", `00-${TRACE.toUpperCase()}-${PARENT}-01`],
    ["a trace id of zeros", `00-${"0".repeat(32)}-${PARENT}-01`],
    ["a parent id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["a short trace id", `00-${TRACE.slice(1)}-${PARENT}-01`],
    ["flags that are not hex", `00-${TRACE}-${PARENT}-0x`],
    ["a line break", `00-${TRACE}-${PARENT}-01\n`],
  ])("%s: a trace of our own begins, without the state", (_, traceparent) => {
    expect(contextOf({ traceparent, tracestate: "a=1" })).toEqual(FRESH);
  });

  test("generated ids have the right form and never repeat", () => {
    const [one, other] = [traceContextOf({}), traceContextOf({})];
    expect(traceHeaders(one).traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(one.traceId).not.toBe(other.traceId);
    expect(one.spanId).not.toBe(other.spanId);
  });
});

describe("sampling", () => {
  const given = (flags: string) => ({ traceparent: `00-${TRACE}-${PARENT}-${flags}` });

  test.each([
    ["a trace that begins here, which is sampled", {}, true, "01"],
    ["a trace that begins here, which is not", {}, false, "00"],
    ["a sampled trace, which is followed", given("01"), false, "01"],
    ["an unsampled trace, which is sampled from here on", given("00"), true, "01"],
    ["an unsampled trace, which is not", given("00"), false, "00"],
    ["flags of later versions, which stay as they are", given("fe"), true, "ff"],
  ])("%s", (_, headers, sampled, flags) => {
    const context = contextOf(headers, () => sampled);
    expect(context.flags).toBe(flags);
    expect(isSampled(context)).toBe(flags !== "00");
    expect(traceHeaders(context).traceparent).toMatch(new RegExp(`-${flags}$`));
  });

  test("is decided by the trace id", () => {
    const asked: string[] = [];
    const sampler = (traceId: string) => asked.push(traceId) > 0;
    contextOf(given("00"), sampler);
    contextOf({}, sampler);
    expect(asked).toEqual([TRACE, newId(16)]);
  });
});

test("a call of the request has a span of its own", () => {
  const context = contextOf({ traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: "a=1" });
  const call = underSpan(context, "cd".repeat(8));
  expect(call.parentId).toBe(context.spanId);
  expect(traceHeaders(call)).toEqual({ traceparent: `00-${TRACE}-${"cd".repeat(8)}-01`, tracestate: "a=1" });
});

describe("tracestate", () => {
  const stateOf = (tracestate: string) =>
    traceHeaders(contextOf({ traceparent: `00-${TRACE}-${PARENT}-01`, tracestate })).tracestate;

  test.each([
    ["one member", "vendor=value", "vendor=value"],
    ["several, with space and empty ones between", "a=1 ,, b@sys=2", "a=1,b@sys=2"],
    ["all characters of a value", "a=!#$%&'()*+-./:;<>?@[]^_`{|}~", "a=!#$%&'()*+-./:;<>?@[]^_`{|}~"],
  ])("%s is passed on", (_, given, passed) => expect(stateOf(given)).toBe(passed));

  test.each([
    ["empty", ""],
    ["without a value", "a="],
    ["a key in upper case", "A=1"],
    ["a space in the value", "a=1 2"],
    ["a character that no header may hold", "a=\u00e9"],
    ["too long", `a=${"x".repeat(256)},b=${"x".repeat(255)}`],
    ["too many members", Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(",")],
  ])("%s is dropped", (_, given) => expect(stateOf(given)).toBeUndefined());
});
