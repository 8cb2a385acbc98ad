import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./node-door.mjs";

/*
 * Writes the package of all programs, with what they need at run time: dist/svc-VERSION.tgz. `npx ./svc-VERSION.tgz start`
 * runs it from any folder.
 *
 * llama.cpp's library requires its builds for every accelerator, 600 MB of them for CUDA. So it is bundled without that
 * list, and the builds for processors and Apple's GPUs are optional dependencies of the package;
 * `npm install @node-llama-cpp/linux-x64-cuda` beside it adds another.
 */

const LLAMA = "node-llama-cpp";
const SMALL_BUILDS = ["linux-x64", "linux-arm64", "mac-arm64-metal", "mac-x64", "win-x64", "win-arm64"];
const FILES = [
  ...["README.md", "deploy/svc.mjs", "deploy/node-door.mjs", "proto/gen/descriptors.binpb"],
  ...["gateway/http/page", "gateway/http/admin/page", "gateway/http/try-it/page"],
  ...["engine/profiles", "engine/demo-model/demo.gguf"],
  ...["dist/gateway", "dist/engine", "dist/deploy", "dist/proto"],
];

const stage = join(root, "dist", "package");
const read = (file) => JSON.parse(readFileSync(join(root, file), "utf8"));
const write = (file, value) => writeFileSync(join(stage, file), `${JSON.stringify(value, undefined, 2)}\n`);

execFileSync(process.execPath, [join(root, "deploy", "build.mjs")], { stdio: "inherit" });
rmSync(stage, { recursive: true, force: true });
mkdirSync(stage, { recursive: true });
const isNeeded = (path) => !/\.(?:map|tsbuildinfo|ts)$/.test(path);
for (const file of FILES) cpSync(join(root, file), join(stage, file), { recursive: true, filter: isNeeded });

const library = join("node_modules", LLAMA);
// The source, from which no build is made here.
const isRun = (path) => !path.endsWith("gitRelease.bundle");
cpSync(join(root, library), join(stage, library), { recursive: true, filter: isRun });
// Its install script would look for the builds that it required.
const { optionalDependencies: builds, scripts: _scripts, ...manifest } = read(join(library, "package.json"));
write(join(library, "package.json"), manifest);

const { name, version, description, license, type, engines, dependencies, optionalDependencies } = read("package.json");
write("package.json", {
  ...{ name, version, description, license, type, engines, bin: { svc: "deploy/svc.mjs" } },
  // npm takes a bundled package as complete.
  dependencies: { ...manifest.dependencies, ...dependencies, [LLAMA]: optionalDependencies[LLAMA] },
  bundleDependencies: [LLAMA],
  optionalDependencies: Object.fromEntries(
    SMALL_BUILDS.map((build) => [`@node-llama-cpp/${build}`, builds[`@node-llama-cpp/${build}`]]),
  ),
});
execFileSync("npm", ["pack", "--silent", stage, "--pack-destination", join(root, "dist")], {
  cwd: root,
  stdio: "inherit",
});
