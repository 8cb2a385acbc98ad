import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { root, unfitNode } from "./node-door.mjs";

/*
 * Refuses a Node that is too old, and brings dist/ up to date; with `--unless FILE` only if that file is missing. An installation without the compiler runs the dist/ that was built elsewhere. This is JavaScript that an
 * old Node can run, because it runs before the build.
 */

const [option, unless] = process.argv.slice(2);
const stamp = join(root, "dist", ".built");

/** Whether nothing that the build reads has changed since the last one, which the compiler takes seconds to find. */
function isFresh() {
  if (!existsSync(stamp)) return false;
  const { mtimeMs: builtMs } = statSync(stamp);
  const { include } = JSON.parse(readFileSync(join(root, "deploy", "tsconfig.build.json"), "utf8"));
  const isOlder = (path) => {
    const stats = statSync(path);
    if (stats.mtimeMs > builtMs) return false;
    return !stats.isDirectory() || readdirSync(path).every((name) => isOlder(join(path, name)));
  };
  const configured = ["tsconfig.json", "package-lock.json", "deploy/tsconfig.build.json"].map((file) =>
    join(root, file),
  );
  return [...configured, ...include.map((path) => join(root, "deploy", path))].every(isOlder);
}
/** The command that starts the compiler; absent without the development dependencies or the optional ones. */
function findCompiler() {
  try {
    const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
    // The compiler is a program of its platform's package, which is an optional dependency.
    createRequire(manifest).resolve(`@typescript/typescript-${process.platform}-${process.arch}/package.json`);
    return join(dirname(manifest), "bin", "tsc");
  } catch {
    return undefined;
  }
}

/** The compiler's message before a build; without changes it builds nothing. */
const BUILDS = "Building project";

function compile(compiler) {
  // Output goes to standard error, because standard output is the program's. Either may have no reader.
  process.stderr.on("error", () => {});
  const tsc = spawn(process.execPath, [compiler, "--build", "--verbose", join(root, "deploy", "tsconfig.build.json")]);
  tsc.stderr.pipe(process.stderr, { end: false });
  let said = "";
  tsc.stdout.setEncoding("utf8").on("data", (text) => {
    const quiet = !said.includes(BUILDS);
    said += text;
    if (quiet && said.includes(BUILDS)) console.error("building dist/ …");
  });
  const began = new Date();
  tsc.on("close", (code) => {
    if (code === 0) {
      writeFileSync(stamp, "");
      utimesSync(stamp, began, began);
    } else process.stderr.write(said);
    process.exitCode = code ?? 1;
  });
}

const unfit = unfitNode();
const compiler = unfit === undefined ? findCompiler() : undefined;
if (unfit !== undefined) {
  console.error(unfit);
  process.exitCode = 2;
} else if (option === "--unless" && unless && existsSync(join(root, unless))) process.exitCode = 0;
else if (compiler) {
  if (!isFresh()) compile(compiler);
} else if (!existsSync(join(root, "dist"))) {
  console.error(
    "build: there is no dist/ and no compiler to make it: install with the development and the optional dependencies\n" +
      "(npm ci), or put a dist/ here that was built elsewhere from the same sources",
  );
  process.exitCode = 1;
}
