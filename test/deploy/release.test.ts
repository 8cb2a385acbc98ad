import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { freePort } from "../support/free-port.ts";

/*
 * The release script with the real buildah, skopeo and cosign and a real registry, on a small project with the targets of
 * the real one. Signatures stay out of the public transparency log.
 */

const IMAGES = join(import.meta.dirname, "../../deploy/images");
const SCRIPT = readFileSync(join(IMAGES, "release"), "utf8");
const TARGETS = [...SCRIPT.matchAll(/^release (\S+) (\S+) "\$version(\S*)"$/gm)].map(([, target, name, suffix]) => ({
  target: target ?? "",
  name: name ?? "",
  tag: `1.2.3${suffix}`,
}));

const missing = ["buildah", "skopeo", "docker-registry", "cosign"].filter((name) => spawnSync(name, ["--help"]).error);
const reason =
  missing.length > 0 ? `there is no ${missing.join(", ")}` : process.getuid?.() === 0 ? "" : "root builds images";

test("the release has every image of the Containerfile", () => {
  const stages = [...readFileSync(join(IMAGES, "Containerfile"), "utf8").matchAll(/^ENTRYPOINT|AS (\S+)$/gm)];
  const shipped = stages.flatMap(([, stage]) => stage ?? []).filter((stage) => /^(?:gateway|engine|local)/.test(stage));
  expect(TARGETS.map(({ target }) => target)).toEqual(shipped);
});

describe.skipIf(reason !== "")(`a release ${reason}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-release-"));
  const project = join(folder, "project");
  const closing: (() => unknown)[] = [];
  let registry = "";
  let env: NodeJS.ProcessEnv = {};

  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { cwd: project, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const commit = () => {
    run("git", "add", "--all");
    run("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "--quiet", "--message", "one");
  };
  const release = (more: NodeJS.ProcessEnv, ...args: string[]) =>
    spawnSync(join(project, "deploy/images/release"), args, { env: { ...env, ...more }, encoding: "utf8" });
  const inspected = (reference: string): string =>
    run("skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", `docker://${reference}`).trim();
  const read = (name: string) => JSON.parse(readFileSync(join(project, "dist/images/1.2.3", name), "utf8"));
  const digestOf = (target: string) => readFileSync(join(project, `dist/images/1.2.3/${target}.digest`), "utf8").trim();
  const verified = (how: readonly string[], key: string, subject: string) =>
    spawnSync("cosign", [...how, "--key", join(folder, key), "--insecure-ignore-tlog=true", subject], {
      env,
      encoding: "utf8",
    });
  /** The predicates of this type that the key attests. */
  const attested = (type: string, subject: string) => {
    const { stdout } = verified(["verify-attestation", "--type", type], "release.pub", subject);
    const payloads = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).payload);
    return payloads.map((payload) => JSON.parse(Buffer.from(payload, "base64").toString()).predicate);
  };

  beforeAll(async () => {
    const port = await freePort();
    registry = `127.0.0.1:${port}`;
    writeFileSync(
      join(folder, "registry.yaml"),
      JSON.stringify({
        version: 0.1,
        log: { level: "error", accesslog: { disabled: true } },
        storage: { filesystem: { rootdirectory: join(folder, "registry") } },
        http: { addr: registry },
      }),
    );
    const child = spawn("docker-registry", ["serve", join(folder, "registry.yaml")], { stdio: "ignore" });
    closing.push(async () => {
      child.kill();
      await once(child, "exit");
    });
    await becomes(
      async () => (await fetch(`http://${registry}/v2/`).catch(() => undefined))?.ok === true,
      "a registry",
    );
    const storage = { driver: '"vfs"', graphroot: `"${folder}/store"`, runroot: `"${folder}/run"` };
    const lines = Object.entries(storage).map(([key, value]) => `${key} = ${value}\n`);
    writeFileSync(join(folder, "storage.conf"), `[storage]\n${lines.join("")}`);
    env = {
      ...{ PATH: process.env.PATH, HOME: folder, COSIGN_PASSWORD: "", COSIGN_ARGS: "--tlog-upload=false" },
      ...{ CONTAINERS_STORAGE_CONF: join(folder, "storage.conf"), BUILDAH_ISOLATION: "chroot" },
      ...{ BUILDAH_ARGS: "--tls-verify=false", SKOPEO_ARGS: "--tls-verify=false" },
    };
    for (const name of ["release", "other"]) {
      execFileSync("cosign", ["generate-key-pair", "--output-key-prefix", name], { cwd: folder, env, stdio: "ignore" });
    }
    mkdirSync(join(project, "deploy/images"), { recursive: true });
    cpSync(join(IMAGES, "release"), join(project, "deploy/images/release"));
    const files = TARGETS.map(
      ({ target }) => `FROM $\{NODE_IMAGE} AS ${target}\nLABEL target=${target}\nCOPY sbom.cdx.json /app/\n`,
    );
    const head = `ARG NODE_IMAGE=${registry}/base:1\nARG CUDA_IMAGE=${registry}/base:1\n`;
    writeFileSync(join(project, "deploy/images/Containerfile"), head + files.join(""));
    for (const name of ["sbom.cdx.json", "package-lock.json"]) writeFileSync(join(project, name), `{"name":"${name}"}`);
    for (const name of [".containerignore", ".gitignore"]) writeFileSync(join(project, name), "dist\n");
    run("git", "init", "--quiet");
    commit();
    writeFileSync(join(folder, "Base"), "FROM scratch\nCOPY package-lock.json /\n");
    run("buildah", "build", "--file", join(folder, "Base"), "--tag", "localhost/base", ".");
    run("buildah", "push", "--tls-verify=false", "localhost/base", `docker://${registry}/base:1`);
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("a release goes up to the push without a registry, with an SBOM and a provenance of each image", {
    timeout: 240_000,
  }, () => {
    const { status, stdout, stderr } = release({ COSIGN_KEY: join(folder, "release.key") }, "1.2.3");
    expect([status, stderr.match(/^error.*/gim)]).toEqual([0, null]);
    const base = inspected(`${registry}/base:1`);
    for (const { target, name, tag } of TARGETS) {
      const { digest } = JSON.parse(readFileSync(join(project, "dist/images/1.2.3", target, "index.json"), "utf8"))
        .manifests[0];
      expect(stdout).toContain(`${name}:${tag} ${digest}`);
      expect(read(`${target}.sbom.json`)).toEqual({ name: "sbom.cdx.json" });
      const statement = read(`${target}.provenance.json`);
      expect(statement).toMatchObject({
        _type: "https://in-toto.io/Statement/v1",
        predicateType: "https://slsa.dev/provenance/v1",
        subject: [{ name: `${name}:${tag}`, digest: { sha256: digest.replace("sha256:", "") } }],
      });
      const { externalParameters, resolvedDependencies } = statement.predicate.buildDefinition;
      expect(externalParameters).toMatchObject({ target, version: "1.2.3" });
      expect(resolvedDependencies.map((one: { digest: object }) => one.digest)).toEqual([
        { gitCommit: run("git", "rev-parse", "HEAD").trim() },
        { sha256: run("sha256sum", "package-lock.json").split(" ")[0] },
        ...[base, base].map((sha256) => ({ sha256: sha256.replace("sha256:", "") })),
      ]);
    }
    expect(
      spawnSync("skopeo", ["list-tags", "--tls-verify=false", `docker://${registry}/svc-gateway`]).status,
    ).not.toBe(0);
  });

  test("a release pushes the same digests unsigned without a key, and says so", { timeout: 240_000 }, () => {
    const { status, stderr } = release({}, "1.2.3", registry);
    expect([status, stderr]).toEqual([0, expect.stringContaining("nothing is signed")]);
    for (const { target, name, tag } of TARGETS) {
      expect(inspected(`${registry}/${name}:${tag}`)).toBe(digestOf(target));
      const unsigned = verified(["verify"], "release.pub", `${registry}/${name}@${digestOf(target)}`);
      expect([unsigned.status, unsigned.stderr]).toEqual([10, expect.stringContaining("no signatures found")]);
    }
  });

  test("a release signs each image and attests its documents with a key; the same commit has the same digest", {
    timeout: 240_000,
  }, () => {
    const before = TARGETS.map(({ target }) => digestOf(target));
    const { status, stderr } = release({ COSIGN_KEY: join(folder, "release.key") }, "1.2.3", registry);
    expect([status, stderr.match(/^error.*/gim)]).toEqual([0, null]);
    expect(TARGETS.map(({ target }) => digestOf(target))).toEqual(before);
    for (const { target, name } of TARGETS) {
      const subject = `${registry}/${name}@${digestOf(target)}`;
      expect(verified(["verify"], "release.pub", subject).status).toBe(0);
      expect(verified(["verify"], "other.pub", subject).status).not.toBe(0);
      expect(attested("cyclonedx", subject)).toEqual([read(`${target}.sbom.json`)]);
      expect(attested("slsaprovenance1", subject)).toMatchObject([read(`${target}.predicate.json`)]);
    }
  });

  test("a release stops at a base image that is not there, and at a changed working tree", () => {
    const gone = release({ NODE_IMAGE: `${registry}/none:1` }, "1.2.3");
    expect([gone.status, gone.stderr]).toEqual([1, expect.stringContaining("manifest unknown")]);
    writeFileSync(join(project, "package-lock.json"), "{}");
    const changed = release({}, "1.2.3");
    expect([changed.status, changed.stderr]).toEqual([1, expect.stringContaining("is built from a commit")]);
    expect(readdirSync(join(project, "dist/images/1.2.3"))).toEqual([]);
  });
});
