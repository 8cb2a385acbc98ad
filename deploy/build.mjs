import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/*
 * Brings dist/ up to date before one of its programs runs; with `--unless FILE` only where that file is missing. An installation
 * without the compiler runs the dist/ that was built elsewhere. This is JavaScript, since it runs before anything is built.
 */

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [option, unless] = process.argv.slice(2);
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

/** The compiler's words before it builds, which it does only where something has changed. */
const BUILDS = "Building project";

function compile(compiler) {
  // What it says goes to standard error: the standard output is the program's. Either may have lost its reader.
  process.stderr.on("error", () => {});
  const tsc = spawn(process.execPath, [compiler, "--build", "--verbose", join(root, "deploy", "tsconfig.build.json")]);
  tsc.stderr.pipe(process.stderr, { end: false });
  let said = "";
  tsc.stdout.setEncoding("utf8").on("data", (text) => {
    const quiet = !said.includes(BUILDS);
    said += text;
    if (quiet && said.includes(BUILDS)) console.error("building dist/ …");
  });
  tsc.on("close", (code) => {
    if (code !== 0) process.stderr.write(said);
    process.exitCode = code ?? 1;
  });
}

const compiler = findCompiler();
if (option === "--unless" && unless && existsSync(join(root, unless))) process.exitCode = 0;
else if (compiler) compile(compiler);
else if (!existsSync(join(root, "dist"))) {
  console.error(
    "build: there is no dist/ and no compiler to make it: install with the development and the optional dependencies\n" +
      "(npm ci), or put a dist/ here that was built elsewhere from the same sources",
  );
  process.exitCode = 1;
}
