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
/** A build that takes longer than this is announced, in milliseconds. */
const SILENT_MS = 1_000;

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

function compile(compiler) {
  const notice = setTimeout(() => console.error("building dist/ …"), SILENT_MS);
  // What it says goes to standard error: the standard output is the program's. Nobody may be reading either.
  process.stderr.on("error", () => {});
  const tsc = spawn(process.execPath, [compiler, "--build", join(root, "deploy", "tsconfig.build.json")]);
  for (const output of [tsc.stdout, tsc.stderr]) output.pipe(process.stderr, { end: false });
  tsc.on("close", (code) => {
    clearTimeout(notice);
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
