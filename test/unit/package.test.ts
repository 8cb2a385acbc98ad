import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const { scripts, allowScripts } = JSON.parse(read("package.json")) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly allowScripts: Readonly<Record<string, boolean>>;
};
type LockedPackage = {
  readonly hasInstallScript?: boolean;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly integrity?: string;
};
const { packages } = JSON.parse(read("package-lock.json")) as {
  readonly packages: Readonly<Record<string, LockedPackage>>;
};

test("no script of a dependency runs when it is installed", () => {
  expect(read(".npmrc").split("\n")).toContain("ignore-scripts=true");
  const wanting = Object.keys(packages).filter((path) => packages[path]?.hasInstallScript);
  const names = wanting.map((path) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
  expect(Object.fromEntries(names.map((name) => [name, false]))).toEqual(allowScripts);
});

test("the images install pinned packages only, each with a digest", () => {
  const installed = Object.entries(packages).filter(
    ([path, { link, dev, os = ["linux"], cpu = ["x64"] }]) =>
      path !== "" && !link && !dev && os.includes("linux") && (cpu.includes("x64") || cpu.includes("arm64")),
  );
  expect(installed.length).toBeGreaterThan(100);
  expect(installed.filter(([, { integrity }]) => !integrity?.startsWith("sha512-")).map(([path]) => path)).toEqual([]);
});

test("of all systems, only programs of the model's runtime that no image installs have no digest yet", () => {
  const without = Object.entries(packages).filter(([path, { link, integrity }]) => path !== "" && !link && !integrity);
  expect(without.filter(([path]) => !path.startsWith("node_modules/@node-llama-cpp/")).map(([path]) => path)).toEqual(
    [],
  );
});

test("no script of ours waits for a pre or post script, which npm then leaves out", () => {
  const others = Object.keys(scripts).filter((name) => Object.hasOwn(scripts, name.replace(/^(pre|post)/, "")));
  expect(others.filter((name) => /^(pre|post)/.test(name))).toEqual([]);
});
