import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { unfitNode } from "../../../../deploy/local/node-version.ts";

test.each(["0.12.18", "18.20.8", "20.0.0", "20.18.3"])("Node %s is too old, in one line", (version) => {
  expect(unfitNode(version)).toBe(`Node ${version} is too old: this needs Node 20.19 or later`);
});

test.each(["20.19.0", "20.20.2", "22.0.0", "24.11.1", "100.0.0"])("Node %s will do", (version) => {
  expect(unfitNode(version)).toBeUndefined();
});

test("the least version is the package's own", () => {
  const { engines } = JSON.parse(readFileSync(new URL("../../../../package.json", import.meta.url), "utf8"));
  expect(engines.node).toBe(">=20.19");
});

test("nothing but the version check is loaded before it", () => {
  const text = readFileSync(new URL("../../../../deploy/local/main.ts", import.meta.url), "utf8");
  expect([...text.matchAll(/^import .* from "(.*)";$/gm)].map(([, from]) => from)).toEqual(["./node-version.ts"]);
});
