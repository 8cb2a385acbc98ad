import { execFile, execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const ROOT = join(import.meta.dirname, "../../..");
const CONTAINERFILE = join(ROOT, "deploy/images/Containerfile");
/** The packages that Node and `RUN` need of a system, only unpacked: the base image of a registry has little else. */
const PACKAGES = ["base-files", "coreutils", "dash", "libatomic1", "libjemalloc2", "libstdc++6", "util-linux"];
const BASE = `FROM scratch
ADD root.tar /
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY etc /usr/local/etc
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ENV PATH=/usr/local/bin:/usr/bin:/bin
`;

const run = promisify(execFile);
const missing = ["buildah", "mmdebstrap"].filter((program) => spawnSync(program, ["--version"]).status !== 0);

/** The reason why no image can be built here; empty if one can be. */
export const noImages =
  missing.length > 0 ? `there is no ${missing.join(" and no ")}` : process.getuid?.() === 0 ? "" : "root builds images";

/** Targets of the Containerfile. `local` has the package of all programs; the others have no build of llama.cpp. */
export type Target = "gateway" | "engine" | "local";

export type Installed = {
  /** Returns the command line of the program, and the folder to run it in. It reads and writes `folder`. */
  command(folder: string, ...args: readonly string[]): { readonly line: readonly string[]; readonly cwd: string };
  /** The user that must own the program's private files; undefined for the user of the tests. */
  readonly user: number | undefined;
};

/** A bare folder has no `local`: it is that of the package. */
export type Targets = Readonly<Record<Exclude<Target, "local">, Installed>> & {
  readonly local?: Installed;
  remove(): void;
};

/**
 * Lays out in a bare folder the files that the last steps of the Containerfile copy, and the runtime packages of a
 * program, without those of development: a file missing there is missing in an image, too. Needs a build in `dist/`.
 */
export function bareFolders(): Targets {
  const folder = mkdtempSync(join(tmpdir(), "svc-bare-"));
  const listed = spawnSync("npm", ["ls", "--all", "--parseable", "--omit=dev", "--omit=optional"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  // Their own dependencies are resolved by npm: links to them suffice.
  const packages = listed.stdout.split("\n").map((path) => path.split("/node_modules/"));
  for (const [, name, nested] of packages) {
    if (name === undefined || nested !== undefined) continue;
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  }
  const installed = (target: Target): Installed => {
    const cwd = join(folder, target);
    mkdirSync(cwd);
    for (const [, stage, from = "", to = ""] of stepsOf(target).matchAll(/^COPY (?:--from=(\S+) )?(\S+) (\S+)$/gm)) {
      if (stage === "dependencies") cpSync(join(ROOT, "package.json"), join(cwd, "package.json"));
      else cpSync(join(ROOT, from.replace(/^\/src\//, "")), join(cwd, to), { recursive: true, filter: shipped });
    }
    const entry: readonly string[] = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(stepsOf(target))?.[1] ?? "[]");
    // The part before it is a Linux program.
    const node = entry.indexOf("node");
    const before = process.platform === "linux" ? entry.slice(0, node) : [];
    return {
      command: (_, ...args) => ({ line: [...before, process.execPath, ...entry.slice(node + 1), ...args], cwd }),
      user: undefined,
    };
  };
  return {
    gateway: installed("gateway"),
    engine: installed("engine"),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Builds the images, from the lines of the Containerfile, by buildah on a root made by mmdebstrap with this Node. */
export async function builtImages(): Promise<Targets> {
  const folder = mkdtempSync(join(tmpdir(), "svc-images-"));
  const own = ["--root", join(folder, "store"), "--runroot", join(folder, "run")];
  const buildah = async (...args: readonly string[]) =>
    (await run("buildah", [...own, ...args], { cwd: ROOT, maxBuffer: 2 ** 26 })).stdout.trim();
  await makeBase(folder);
  await buildah("build", "--isolation", "chroot", "--tag", "localhost/base", join(folder, "base"));
  const cache = execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).trim();
  const installed = async (target: Target): Promise<Installed> => {
    const given = ["--build-arg", "NODE_IMAGE=localhost/base", "--volume", `${cache}:/npm-cache`, "--pull-never"];
    const where = ["--file", CONTAINERFILE, "--ignorefile", join(ROOT, ".containerignore"), "--target", target];
    const tag = `localhost/svc-${target}`;
    await buildah("build", "--isolation", "chroot", "--layers", ...given, ...where, "--tag", tag, ROOT);
    const { OCIv1 } = JSON.parse(await buildah("inspect", "--type", "image", tag));
    const { Entrypoint: entry, User: user } = OCIv1.config;
    const container = await buildah("from", "--pull-never", tag);
    return {
      command: (mounted, ...args) => ({
        line: ["buildah", ...own, "run", "--isolation", "chroot"].concat(
          ["--volume", `${mounted}:${mounted}`, container, "--"],
          [...entry, ...args],
        ),
        cwd: ROOT,
      }),
      user: Number.parseInt(user, 10),
    };
  };
  const gateway = await installed("gateway");
  const engine = await installed("engine");
  const local = await installed("local");
  const remove = () => {
    for (const command of [
      ["rm", "--all"],
      ["rmi", "--all", "--force"],
    ])
      spawnSync("buildah", [...own, ...command], { stdio: "ignore" });
    rmSync(folder, { recursive: true, force: true });
  };
  return { gateway, engine, local, remove };
}

/** Makes a replacement of the base image: the system's packages, this Node, its npm, and the registry. */
async function makeBase(folder: string): Promise<void> {
  const base = join(folder, "base");
  mkdirSync(join(base, "etc"), { recursive: true });
  const system = ["--variant=extract", `--include=${PACKAGES.join(",")}`, "bookworm", join(base, "root.tar")];
  await run("mmdebstrap", system, { maxBuffer: 2 ** 26 });
  cpSync(process.execPath, join(base, "node"));
  const packages = execFileSync("npm", ["root", "--global"], { encoding: "utf8" }).trim();
  cpSync(join(packages, "npm"), join(base, "npm"), { recursive: true });
  const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  const lines = [`registry=${registry}`, "cache=/npm-cache", "prefer-offline=true"];
  const authorities = process.env.NODE_EXTRA_CA_CERTS;
  if (authorities) {
    cpSync(authorities, join(base, "etc/authorities.pem"), { dereference: true });
    lines.push("cafile=/usr/local/etc/authorities.pem");
  }
  writeFileSync(join(base, "etc/npmrc"), `${lines.join("\n")}\n`);
  writeFileSync(join(base, "Containerfile"), BASE);
}

function stepsOf(target: Target): string {
  const stages = readFileSync(CONTAINERFILE, "utf8").split(/^FROM /m);
  return stages.find((stage) => stage.startsWith(`base AS ${target}\n`)) ?? "";
}

/** Whether a file of a build is copied into an image. */
function shipped(path: string): boolean {
  return !path.startsWith(join(ROOT, "dist/test"));
}
