import { expect, test } from "vitest";
import { newCallIds } from "../../../../../engine/backends/request-plan.ts";
import { assistant, call, user } from "../../../../support/engine/canonical.ts";

test("call ids have the form that the model's template requires", () => {
  const plain = newCallIds("any", []);
  expect(plain("run")).toMatch(/^call_[0-9a-f]{24}$/);
  expect(plain("run")).not.toBe(plain("run"));
  expect(newCallIds("nine-characters", [])("run")).toMatch(/^[0-9a-f]{9}$/);
});

test("numbered ids continue those of the conversation", () => {
  const history = [user("Hi"), assistant(call("run", "{}"), call("run", "{}")), assistant(call("search", "{}"))];
  const numbered = newCallIds("functions.name:index", history);
  expect([numbered("run"), numbered("search")]).toEqual(["functions.run:3", "functions.search:4"]);
});
