import { expect, test } from "vitest";
import { stateSchema } from "../../../../gateway/state/state-settings.ts";

test.each([
  { url: "redis://localhost" },
  { url: "redis://gateway@[::1]:6380/3", passwordFile: "password" },
  { url: "rediss://gateway:pass%40word@store.example:6379/0", caFile: "ca.pem" },
])("a store is taken by %j", (redis) => {
  expect(stateSchema.safeParse({ redis }).success).toBe(true);
});

test.each([
  [{ url: "store:6379" }, /redis:\/\/USER@HOST:PORT\/DATABASE/],
  [{ url: "http://store:6379" }, /redis:\/\/USER/],
  [{ url: "redis://store:6379/db" }, /redis:\/\/USER/],
  [{ url: "redis://store:6379?db=1" }, /redis:\/\/USER/],
  [{ url: "redis://store", caFile: "ca.pem" }, /expected a rediss:\/\/ URL/],
  [{ url: "redis://user:word@store", passwordFile: "password" }, /the password is given already/],
  [{ addresses: ["store:6379"] }, /addresses/],
  [{ url: "redis://store", keyPrefix: "a b" }, /expected at most 32 letters/],
])("a store is not taken by %j", (redis, fault) => {
  expect(JSON.stringify(stateSchema.safeParse({ redis }).error?.issues)).toMatch(fault);
});
