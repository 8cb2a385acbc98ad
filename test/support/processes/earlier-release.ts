import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../..");

/**
 * The commit that stands for the previous release, until there is a release. It uses the same versions of the shared
 * packages, so that those of this release run it; a later commit may need removed packages.
 */
const COMMIT = "77ad34000f401ea8b7018f9f0e6c977beb72810f";

/** Files of the commit for `git archive`: the sources of the programs, and their build. */
const SOURCES = ["proto", "gateway", "engine", "deploy", "package.json", "tsconfig.json"] as const;
const MAX_ARCHIVE_BYTES = 256 * 1024 * 1024;

/** Why the previous release is unavailable, such as a clone without the commit; empty if it is available. */
export const NO_EARLIER_RELEASE =
  spawnSync("git", ["cat-file", "-e", `${COMMIT}^{commit}`], { cwd: ROOT }).status === 0
    ? ""
    : `no commit ${COMMIT.slice(0, 8)} here: it takes git and a clone with the whole history`;

export class EarlierRelease {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Builds the programs in a separate folder, with the packages that are installed here. */
  static build(): EarlierRelease {
    const folder = mkdtempSync(join(tmpdir(), "svc-earlier-"));
    const archive = execFileSync("git", ["archive", "--format=tar", COMMIT, ...SOURCES], {
      cwd: ROOT,
      maxBuffer: MAX_ARCHIVE_BYTES,
    });
    execFileSync("tar", ["-x", "-C", folder], { input: archive });
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    execFileSync(process.execPath, [compiler, "-p", "deploy/tsconfig.build.json"], { cwd: folder, stdio: "inherit" });
    return new EarlierRelease(folder);
  }

  get dist(): string {
    return join(this.#folder, "dist");
  }

  keyCommand(file: string, ...args: readonly string[]): string {
    const program = join(this.dist, "gateway/keys/cli.js");
    return execFileSync(process.execPath, [program, "--file", file, ...args], { encoding: "utf8" });
  }

  createKey(file: string): string {
    return JSON.parse(this.keyCommand(file, "--json", "create", "--name", "earlier", "--models", "all")).key;
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
