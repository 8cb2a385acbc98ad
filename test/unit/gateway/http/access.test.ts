import { describe, expect, test } from "vitest";
import { ApiError, ENVELOPES } from "../../../../gateway/errors.ts";
import { messageOf, statusOf } from "../../../../gateway/formats/error-envelope.ts";
import { invalidApiKey, presentedKeys } from "../../../../gateway/http/access/auth.ts";
import { checkApiVersion } from "../../../../gateway/http/access/request-head.ts";
import { clientAddress, loggedNetwork, networkOf } from "../../../../gateway/http/record/client-address.ts";
import { routingHints } from "../../../../gateway/http/record/request-context.ts";
import { principalWith } from "../../../support/gateway/principal-with.ts";

const KEY = "svc_live_abcdefghijkl_secret";

function refusal(rawHeaders: readonly string[]): ApiError {
  try {
    presentedKeys(rawHeaders);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error("the key was taken");
}

describe("accepts the key", () => {
  test.each([
    ["as a bearer", ["Authorization", `Bearer ${KEY}`]],
    ["with the scheme in lower case", ["authorization", `bearer ${KEY}`]],
    ["with the scheme in upper case", ["AUTHORIZATION", `BEARER ${KEY}`]],
    ["as x-api-key", ["X-Api-Key", KEY]],
    ["twice, when both are equal", ["x-api-key", KEY, "authorization", `Bearer ${KEY}`]],
    ["as a bearer behind several spaces", ["authorization", `Bearer   ${KEY}`]],
    ["as x-api-key beside an empty header", ["authorization", "", "x-api-key", KEY]],
    ["as a bearer beside an empty header", ["authorization", `Bearer ${KEY}`, "x-api-key", ""]],
    ["as x-api-key beside a credential of another form", ["authorization", "Basic dXNlcjpwYXNz", "x-api-key", KEY]],
    ["as a bearer beside what cannot be a key", ["authorization", `Bearer ${KEY}`, "x-api-key", "k".repeat(129)]],
    ["among other headers", ["host", "x-api-key", "accept", "*/*", "x-api-key", KEY, "x", "authorization"]],
  ])("a key is found in the headers %s", (_, rawHeaders) => {
    expect(presentedKeys(rawHeaders)).toEqual([KEY]);
  });

  test("of the largest accepted size", () => {
    const longest = "k".repeat(128);
    expect(presentedKeys(["authorization", `Bearer ${longest}`])).toEqual([longest]);
    expect(presentedKeys(["x-api-key", longest])).toEqual([longest]);
  });
});

test("accepts two keys that differ, in the order of the attempts, x-api-key first", () => {
  expect(presentedKeys(["authorization", `Bearer ${KEY}`, "x-api-key", `${KEY}2`])).toEqual([`${KEY}2`, KEY]);
});

describe("any wrong key is refused with 401 and the same wording", () => {
  test.each([
    ["an empty bearer", ["authorization", "Bearer "], "api_key_malformed"],
    ["the scheme alone", ["authorization", "Bearer"], "api_key_malformed"],
    ["another scheme", ["authorization", "Basic dXNlcjpwYXNz"], "api_key_malformed"],
    ["no scheme", ["authorization", KEY], "api_key_malformed"],
    ["hundreds of blanks", ["authorization", `Bearer${" ".repeat(300)}${KEY}`], "api_key_malformed"],
    ["a tab", ["authorization", `Bearer\t${KEY}`], "api_key_malformed"],
    ["a blank at the end", ["authorization", `Bearer ${KEY} `], "api_key_malformed"],
    ["two values in one header", ["authorization", `Bearer ${KEY}, Bearer ${KEY}`], "api_key_malformed"],
    ["a scheme in x-api-key", ["x-api-key", `Bearer ${KEY}`], "api_key_malformed"],
    ["a byte that is not ASCII", ["x-api-key", `${KEY}\u00e9`], "api_key_malformed"],
    ["a control character", ["x-api-key", `${KEY}\u0000`], "api_key_malformed"],
    ["a line break", ["x-api-key", `${KEY}\n`], "api_key_malformed"],
    ["a key that is too long", ["x-api-key", "k".repeat(129)], "api_key_malformed"],
    ["a bearer that is too long", ["authorization", `Bearer ${"k".repeat(129)}`], "api_key_malformed"],
    ["a huge key", ["authorization", `Bearer ${"k".repeat(1_000_000)}`], "api_key_malformed"],
    ["two headers of which none holds a key", ["authorization", "Basic x", "x-api-key", "a b"], "api_key_malformed"],
  ])("a wrong key is refused with 401 and the same wording: %s", (_, rawHeaders, detail) => {
    const error = refusal(rawHeaders);
    expect(error).toMatchObject({ code: "invalid_api_key", detail });
    expect(error.wording).toEqual(invalidApiKey().wording);
  });
});

test("names the required header if there is no key", () => {
  for (const rawHeaders of [
    [],
    ["authorization", ""],
    ["x-api-key", "", "authorization", ""],
    ["host", "x"],
    ["cookie", `key=${KEY}`],
    ["proxy-authorization", `Bearer ${KEY}`],
  ]) {
    const error = refusal(rawHeaders);
    expect(error).toMatchObject({ code: "invalid_api_key", detail: "api_key_missing" });
    expect(statusOf(error, "a")).toBe(401);
    expect(messageOf(error, "a")).toMatch(/^Missing API key\./);
    expect(messageOf(error, "b")).toMatch(/^Missing API key\./);
  }
});

test.each(["authorization", "x-api-key"])("two %s headers are refused with 400, equal or not", (name) => {
  const value = name === "authorization" ? `Bearer ${KEY}` : KEY;
  for (const second of [value, "other"]) {
    const error = refusal([name, value, name.toUpperCase(), second]);
    expect(error.code).toBe("bad_request");
    expect(statusOf(error, "b")).toBe(400);
  }
});

test.each([[], ["x-api-key", "a b"]])("explains in every envelope how to send a key", (...rawHeaders) => {
  for (const envelope of ENVELOPES) {
    const text = messageOf(refusal(rawHeaders), envelope);
    expect(text).toContain("Authorization: Bearer <API_KEY>");
    // The error name by which agents detect a wrong key.
    expect(text).toContain("x-api-key: <API_KEY>");
  }
});

test("a refusal does not repeat the sent credential", () => {
  for (const rawHeaders of [
    ["authorization", "Basic CANARY"],
    ["x-api-key", "CANARY ", "authorization", "Bearer CANARY2 "],
    ["x-api-key", "CANARY", "x-api-key", "CANARY"],
  ])
    expect(JSON.stringify([refusal(rawHeaders), refusal(rawHeaders).message])).not.toContain("CANARY");
});

describe("the version header", () => {
  test.each([
    ["is absent", {}],
    ["is the default", { "vendor-version": "2023-06-01" }],
    ["is another date", { "anthropic-version": "2026-10-21" }],
    ["is read by its first name only", { "vendor-version": "2023-06-01", "anthropic-version": "latest" }],
  ])("the version header is accepted when it %s", (_, headers) => {
    expect(() => checkApiVersion(headers)).not.toThrow();
  });

  test.each([
    ["vendor-version", "x"],
    ["vendor-version", ""],
    ["vendor-version", "2023-06-01, 2026-10-21"],
    ["anthropic-version", "2026-10"],
    ["anthropic-version", "2023-06-01\n"],
  ])("the version header is refused as %s: %j, without being quoted", (name, value) => {
    const expected = `${name}: expected a date of the form YYYY-MM-DD.`;
    expect(() => checkApiVersion({ [name]: value })).toThrow(expected);
    expect(() => checkApiVersion({ [name]: value })).toThrow(ApiError);
  });

  test("the version header is refused by its first value though the second is a date", () => {
    expect(() => checkApiVersion({ "vendor-version": "x", "anthropic-version": "2023-06-01" })).toThrow(ApiError);
  });
});

describe("the address of a client", () => {
  test.each([
    ["10.0.0.1", undefined, 0, "10.0.0.1"],
    ["::ffff:10.0.0.1", undefined, 0, "10.0.0.1"],
    ["2001:db8::1", undefined, 0, "2001:db8::1"],
    [undefined, undefined, 0, ""],
    ["10.0.0.1", "192.0.2.7", 0, "10.0.0.1"],
    ["10.0.0.1", "192.0.2.7", 1, "192.0.2.7"],
    ["10.0.0.1", "6.6.6.6, 192.0.2.7", 1, "192.0.2.7"],
    ["10.0.0.1", "6.6.6.6, 192.0.2.7 , 10.1.1.1", 2, "192.0.2.7"],
    ["10.0.0.1", "6.6.6.6,::ffff:192.0.2.7", 1, "192.0.2.7"],
    ["10.0.0.1", "2001:db8::7", 1, "2001:db8::7"],
    ["10.0.0.1", "192.0.2.7", 2, "10.0.0.1"],
    ["10.0.0.1", undefined, 1, "10.0.0.1"],
    ["10.0.0.1", "", 1, "10.0.0.1"],
    ["10.0.0.1", "192.0.2.7, unknown", 1, "10.0.0.1"],
    ["10.0.0.1", "192.0.2.7:443", 1, "10.0.0.1"],
  ] as const)("the address of a client of %s with %j behind %i proxies is %s", (remote, forwarded, hops, address) => {
    expect(clientAddress(remote, forwarded, hops)).toBe(address);
  });
});

test.each([
  ["192.0.2.171", "192.0.2.0/24"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"],
  ["::1", "0:0:0::/48"],
  ["", undefined],
  ["unknown", undefined],
])("of the address %j %s is logged", (address, network) => {
  expect(loggedNetwork(address)).toBe(network);
});

describe("the network of an address", () => {
  test.each([
    ["192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002:ffff::1", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["1::", "1:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["64:ff9b::192.0.2.33", "64:ff9b:0:0::/64"],
    ["1:2:3:4:5:6:192.0.2.33", "1:2:3:4::/64"],
    ["", ""],
  ])("the network of the address %s is %s", (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

const principal = principalWith({ queued: 3 });

test("digests for routing differ for every owner and part", () => {
  const { digest } = routingHints(principal, {});
  expect(digest("session", "1")).toBe(routingHints(principal, {}).digest("session", "1"));
  const stranger = { ...principal, routingKey: Buffer.alloc(32, 1) };
  expect(digest("a", "b")).not.toBe(routingHints(stranger, {}).digest("a", "b"));
  expect(digest("ab", "c")).not.toBe(digest("a", "bc"));
});

test.each([
  ["HIGH", 0, "high"],
  ["DEFAULT", -5, "default"],
  ["HIGH", -50, "low"],
  ["LOW", 0, "low"],
] as const)("a %s key's request of priority %i waits in the class %s", (priority, ofRequest, priorityClass) => {
  expect(routingHints({ ...principal, priority }, {}, ofRequest)).toMatchObject({ priorityClass });
});

test("the hints have the key's queue limit", () => {
  expect(routingHints(principal, {})).toMatchObject({ keyId: "keyA", maxPendingRequests: 3, priorityClass: "default" });
});
