import { expect, test } from "vitest";
import { callerOf } from "../../../../../gateway/http/connection/caller-of.ts";

test.each([
  [{ authorization: "Bearer one", "x-api-key": "two" }, "Bearer one"],
  [{ "x-api-key": "two" }, "two"],
  [{}, "192.0.2.1"],
])("a request with the head %o takes turns as %s", (headers, caller) => {
  expect(callerOf({ raw: { headers, socket: { remoteAddress: "192.0.2.1" } } } as never)).toBe(caller);
});
