import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const { scripts, allowScripts } = JSON.parse(read("package.json")) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly allowScripts: Readonly<Record<string, boolean>>;
};
const { packages } = JSON.parse(read("package-lock.json")) as {
  readonly packages: Readonly<Record<string, { readonly hasInstallScript?: boolean }>>;
};

test("no script of a dependency runs when it is installed", () => {
  expect(read(".npmrc").split("\n")).toContain("ignore-scripts=true");
  const wanting = Object.keys(packages).filter((path) => packages[path]?.hasInstallScript);
  const names = wanting.map((path) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
  expect(Object.fromEntries(names.map((name) => [name, false]))).toEqual(allowScripts);
});

test("no script of ours waits for a pre or post script, which npm then leaves out", () => {
  const others = Object.keys(scripts).filter((name) => Object.hasOwn(scripts, name.replace(/^(pre|post)/, "")));
  expect(others.filter((name) => /^(pre|post)/.test(name))).toEqual([]);
});
