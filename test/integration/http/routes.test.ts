import { expect, test } from "vitest";
import { ROUTES, urlPattern } from "../../../gateway/routes.ts";
import { startGateway } from "../../support/gateway/start-gateway.ts";

function printed(tree: string): string[] {
  const above: string[] = [];
  return tree
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => {
      const [, indent = "", segment = "", methods = ""] = /^([\s│]*)[└├]── (\S+) \((.*)\)$/.exec(line) ?? [];
      above.splice(indent.length / 4, Number.POSITIVE_INFINITY, segment);
      // A wildcard is printed without the slash before it.
      const path = above
        .join("")
        .replace("//", "/")
        .replace(/\/?\*$/, "/*");
      return methods.split(", ").map((method) => `${method} ${path}`);
    });
}

test("the server has the routes of the table, with their methods, and no other", async () => {
  const gateway = await startGateway([]);
  try {
    const listed = ROUTES.flatMap((spec) => spec.methods.map((method) => `${method} ${urlPattern(spec)}`));
    expect(printed(gateway.routes).sort()).toEqual(listed.sort());
  } finally {
    await gateway.stop();
  }
});
