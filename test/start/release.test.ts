import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { missing } from "../support/engine/demo-engine.ts";

/* A release of this project, made in a clone; its images are those of test/deploy/release.test.ts. */

const ROOT = join(import.meta.dirname, "../..");
const noCosign = spawnSync("cosign", ["version"]).error ? "there is no cosign" : "";
const reason = missing || noCosign;

describe.skipIf(reason !== "")(`a release of the project ${reason}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-release-"));
  const project = join(folder, "project");
  const key = join(folder, "cosign");
  const env = {
    ...{ ...process.env, COSIGN_PASSWORD: "", COSIGN_KEY: `${key}.key`, COSIGN_ARGS: "--tlog-upload=false" },
    ...{ GIT_AUTHOR_NAME: "t", GIT_AUTHOR_EMAIL: "t@example.invalid" },
    ...{ GIT_COMMITTER_NAME: "t", GIT_COMMITTER_EMAIL: "t@example.invalid" },
  };
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { cwd: project, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const release = (...args: string[]) => spawnSync(join(project, "deploy/release"), args, { env, encoding: "utf8" });
  const read = (file: string) => readFileSync(join(project, file), "utf8");
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("a release of the project has version, notes, package, SBOM, signed checksums and a tag", {
    timeout: 300_000,
  }, () => {
    execFileSync("git", ["clone", "--quiet", ROOT, project], { stdio: "ignore" });
    symlinkSync(join(ROOT, "node_modules"), join(project, "node_modules"));
    // A link is no folder that .gitignore names.
    appendFileSync(join(project, ".git/info/exclude"), "node_modules\n");
    // The compiler finds that nothing is to be built.
    cpSync(join(ROOT, "dist"), join(project, "dist"), { recursive: true, preserveTimestamps: true });
    execFileSync("cosign", ["generate-key-pair", "--output-key-prefix", "cosign"], {
      cwd: folder,
      env,
      stdio: "ignore",
    });

    const { status, stdout, stderr } = release("7.8.9", "--no-images");
    expect([status, status === 0 ? "" : stderr]).toEqual([0, ""]);
    const out = "dist/release/7.8.9";
    expect(stdout).toContain("git push --follow-tags");
    expect(readdirSync(join(project, out)).sort()).toEqual(
      ["NOTES.md", "SHA256SUMS", "SHA256SUMS.sig", "svc-7.8.9.sbom.json", "svc-7.8.9.tgz"].sort(),
    );
    expect(run("git", "status", "--porcelain")).toBe("");
    expect(run("git", "log", "-1", "--format=%s").trim()).toBe("Release 7.8.9");
    expect(run("git", "describe", "--exact-match").trim()).toBe("v7.8.9");

    const notes = read(`${out}/NOTES.md`);
    expect(notes).toContain("Deployments for compose, Kubernetes");
    expect(read(".github/CHANGELOG.md")).toMatch(/^## Unreleased\n\n## 7\.8\.9 \(\d{4}-\d\d-\d\d\)\n/m);
    expect(read("deploy/kubernetes/gateway/kustomization.yaml")).toContain("newTag: 7.8.9");
    expect(read("deploy/compose/compose.yaml")).toContain("svc-engine:7.8.9-llama");
    expect(read("deploy/docs/run-as-a-service.md")).toContain("./svc-7.8.9.tgz start");
    expect(JSON.parse(read("package.json")).version).toBe("7.8.9");
    expect(run("tar", "-xOf", `${out}/svc-7.8.9.tgz`, "package/package.json")).toContain('"version": "7.8.9"');
    expect(JSON.parse(read(`${out}/svc-7.8.9.sbom.json`))).toMatchObject({ bomFormat: "CycloneDX" });

    execFileSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: join(project, out), stdio: "ignore" });
    const verify = (publicKey: string) =>
      spawnSync(
        "cosign",
        ["verify-blob", "--key", publicKey, "--insecure-ignore-tlog=true"].concat([
          "--signature",
          join(project, out, "SHA256SUMS.sig"),
          join(project, out, "SHA256SUMS"),
        ]),
        { env },
      ).status;
    expect(verify(`${key}.pub`)).toBe(0);
    writeFileSync(join(project, out, "SHA256SUMS"), "another list\n");
    expect(verify(`${key}.pub`)).not.toBe(0);
  });

  test.each([
    [["7.8.9", "--no-images"], "v7.8.9 is released already"],
    [["7.8.10", "--no-images"], "nothing under Unreleased"],
    [["next", "--no-images"], "next is no version: MAJOR.MINOR.PATCH"],
  ])("a release of the project refuses %s", (args, text) => {
    const { status, stderr } = release(...args);
    expect([status, stderr]).toEqual([2, expect.stringContaining(text)]);
    expect(run("git", "status", "--porcelain")).toBe("");
  });
});
