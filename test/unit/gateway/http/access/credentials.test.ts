import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { messageOf, statusOf } from "../../../../../gateway/formats/error-envelope.ts";
import { invalidApiKey, presentedKey } from "../../../../../gateway/http/access/credentials.ts";

const KEY = "svc_live_abcdefghijkl_secret";

function refusal(rawHeaders: readonly string[]): ApiError {
  try {
    presentedKey(rawHeaders);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error("the key was taken");
}

describe("takes the key", () => {
  test.each([
    ["as a bearer", ["Authorization", `Bearer ${KEY}`]],
    ["with the scheme in lower case", ["authorization", `bearer ${KEY}`]],
    ["with the scheme in upper case", ["AUTHORIZATION", `BEARER ${KEY}`]],
    ["as x-api-key", ["X-Api-Key", KEY]],
    ["twice, when both are equal", ["x-api-key", KEY, "authorization", `Bearer ${KEY}`]],
    ["among other headers", ["host", "x-api-key", "accept", "*/*", "x-api-key", KEY, "x", "authorization"]],
  ])("%s", (_, rawHeaders) => {
    expect(presentedKey(rawHeaders)).toBe(KEY);
  });

  test("of the largest size that is looked at", () => {
    const longest = "k".repeat(128);
    expect(presentedKey(["authorization", `Bearer ${longest}`])).toBe(longest);
    expect(presentedKey(["x-api-key", longest])).toBe(longest);
  });
});

describe("refuses with 401 and the words for any wrong key", () => {
  test.each([
    ["an empty bearer", ["authorization", "Bearer "], "api_key_malformed"],
    ["the scheme alone", ["authorization", "Bearer"], "api_key_malformed"],
    ["an empty header", ["authorization", ""], "api_key_malformed"],
    ["an empty x-api-key", ["x-api-key", ""], "api_key_malformed"],
    ["another scheme", ["authorization", "Basic dXNlcjpwYXNz"], "api_key_malformed"],
    ["no scheme", ["authorization", KEY], "api_key_malformed"],
    ["two blanks", ["authorization", `Bearer  ${KEY}`], "api_key_malformed"],
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
    ["two keys that differ", ["authorization", `Bearer ${KEY}`, "x-api-key", `${KEY}2`], "api_keys_differ"],
    ["a good key beside a bad form", ["authorization", "Basic x", "x-api-key", KEY], "api_key_malformed"],
  ])("%s", (_, rawHeaders, detail) => {
    const error = refusal(rawHeaders);
    expect(error).toMatchObject({ code: "invalid_api_key", detail });
    expect(error.wording).toEqual(invalidApiKey().wording);
  });
});

test("says what is missing where there is no key at all", () => {
  for (const rawHeaders of [[], ["host", "x"], ["cookie", `key=${KEY}`], ["proxy-authorization", `Bearer ${KEY}`]]) {
    const error = refusal(rawHeaders);
    expect(error).toMatchObject({ code: "invalid_api_key", detail: "api_key_missing" });
    expect(statusOf(error, "a")).toBe(401);
    expect(messageOf(error, "a")).toMatch(/^Missing API key\./);
    expect(messageOf(error, "b")).toBe("invalid x-api-key");
  }
});

test.each(["authorization", "x-api-key"])("refuses two %s headers with 400, equal or not", (name) => {
  const value = name === "authorization" ? `Bearer ${KEY}` : KEY;
  for (const second of [value, "other"]) {
    const error = refusal([name, value, name.toUpperCase(), second]);
    expect(error.code).toBe("bad_request");
    expect(statusOf(error, "b")).toBe(400);
  }
});

test("repeats nothing of what was sent", () => {
  for (const rawHeaders of [
    ["authorization", "Basic CANARY"],
    ["x-api-key", "CANARY", "authorization", "Bearer CANARY2"],
    ["x-api-key", "CANARY", "x-api-key", "CANARY"],
  ])
    expect(JSON.stringify([refusal(rawHeaders), refusal(rawHeaders).message])).not.toContain("CANARY");
});
