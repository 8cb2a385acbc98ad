// Lints the contract, checks it against its baseline and writes proto/gen.
//   node proto/generate.mjs            lint, format check, breaking check, generate
//   node proto/generate.mjs --check    the same, and fails if proto/gen is stale
//   node proto/generate.mjs --baseline makes the present contract the baseline (a release does this)
//
// The standard protos (google.rpc, ORCA, health) are taken from installed packages and never copied into the
// repository: buf wants all modules below one folder, so a workspace is laid out in a temporary one.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const bin = (name) => join(root, "node_modules", ".bin", name);
const packageFolder = (name) => dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));

const workspace = mkdtempSync(join(tmpdir(), "svc-proto-"));
const buf = (...args) => execFileSync(bin("buf"), args, { cwd: workspace, stdio: "inherit" });

/** ts-proto: oneofs as discriminated unions, so that a missing case does not compile. */
const TS_PROTO_OPTIONS = [
  "oneof=unions-value",
  "outputServices=grpc-js",
  "outputClientImpl=false",
  "useReadonlyTypes=true",
  "enumsAsLiterals=true",
  "removeEnumPrefix=true",
  "unrecognizedEnum=false",
  "importSuffix=.ts",
  "esModuleInterop=true",
  "env=node",
  "exportCommonSymbols=false",
  "outputJsonMethods=true",
  "outputPartialMethods=true",
];

function layOut() {
  const standard = join(workspace, "standard");
  const googleapis = join(packageFolder("@grpc/grpc-js-xds"), "deps", "googleapis");
  const xds = join(packageFolder("@grpc/grpc-js"), "proto", "xds");
  cpSync(join(here, "svc"), join(workspace, "svc-module", "svc"), { recursive: true });
  for (const [from, to] of [
    [join(googleapis, "google/rpc/status.proto"), "google/rpc/status.proto"],
    [join(googleapis, "google/rpc/error_details.proto"), "google/rpc/error_details.proto"],
    [join(xds, "xds/data/orca/v3/orca_load_report.proto"), "xds/data/orca/v3/orca_load_report.proto"],
    [join(xds, "xds/service/orca/v3/orca.proto"), "xds/service/orca/v3/orca.proto"],
    [join(packageFolder("grpc-health-check"), "proto/health/v1/health.proto"), "grpc/health/v1/health.proto"],
  ])
    cpSync(from, join(standard, to), { recursive: true });
  // ORCA's validation rules are of no use in TypeScript, and their proto would import descriptor.proto.
  const orca = join(standard, "xds/data/orca/v3/orca_load_report.proto");
  const withoutRules = readFileSync(orca, "utf8")
    .replace('import "validate/validate.proto";', "")
    .replace(/ \[\(validate[^\]]*\];/g, ";");
  writeFileSync(orca, withoutRules);
  cpSync(join(here, "buf.yaml"), join(workspace, "buf.yaml"));
}

/** One pass of ts-proto over `folders`, with `options` besides the common ones. */
function generate(folders, includeImports, options) {
  const template = {
    version: "v2",
    inputs: folders.map((directory) => ({ directory })),
    plugins: [
      {
        local: bin("protoc-gen-ts_proto"),
        out: "gen",
        include_imports: includeImports,
        opt: [...TS_PROTO_OPTIONS, ...options],
      },
    ],
  };
  buf("generate", "--template", JSON.stringify(template));
}

/** Relative path to content, for every file below `folder`. */
function contents(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    files.map((f) => [
      join(f.parentPath, f.name).slice(folder.length + 1),
      // One character for each byte, because one file is binary.
      readFileSync(join(f.parentPath, f.name), "latin1"),
    ]),
  );
}

function requireFresh(generated, committed) {
  const now = contents(generated);
  const then = contents(committed);
  const stale = [...new Set([...now.keys(), ...then.keys()])].filter((file) => now.get(file) !== then.get(file));
  if (stale.length === 0) return;
  console.error(`proto/gen is stale (run npm run proto):\n${stale.map((file) => `  ${file}`).join("\n")}`);
  process.exitCode = 1;
}

try {
  layOut();
  const baseline = join(here, "baseline.binpb");
  buf("lint", "svc-module");
  buf("format", "-d", "--exit-code", "svc-module");
  if (process.argv.includes("--baseline")) buf("build", "svc-module", "-o", baseline);
  buf("breaking", "svc-module", "--against", baseline);
  // Without the comments of the standard protos, and with ours.
  generate(["standard", "svc-module"], true, ["comments=false"]);
  generate(["svc-module"], false, []);
  // For server reflection: the files of the contract and the standard files that they import.
  buf("build", "--as-file-descriptor-set", "--exclude-source-info", "-o", join("gen", "descriptors.binpb"));
  const generated = join(workspace, "gen");
  const committed = join(here, "gen");
  if (process.argv.includes("--check")) requireFresh(generated, committed);
  else {
    rmSync(committed, { recursive: true, force: true });
    cpSync(generated, committed, { recursive: true });
  }
} catch (error) {
  // buf has already printed the error.
  if (error.status === undefined) console.error(error);
  process.exitCode = 1;
} finally {
  rmSync(workspace, { recursive: true, force: true });
}
