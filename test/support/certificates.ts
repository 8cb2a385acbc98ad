import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const HAS_OPENSSL = spawnSync("openssl", ["version"]).status === 0;
/** Why a test that needs certificates is skipped. */
export const NO_OPENSSL = "openssl is not installed, and it makes the certificates";

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

export class Certificates {
  readonly #folder = mkdtempSync(join(tmpdir(), "svc-certificates-"));

  file(name: string): string {
    return join(this.#folder, name);
  }

  authority(name: string, days = 30): void {
    this.#openssl("req", "-x509", ...NEW_KEY, ...this.#subject(name), "-days", String(days), "-out", `${name}.pem`);
  }

  signed(name: string, authority: string, subjectAltName = "DNS:localhost", days = 30): void {
    this.#openssl("req", "-new", ...NEW_KEY, ...this.#subject(name), "-out", `${name}.csr`);
    writeFileSync(this.file("names.txt"), `subjectAltName=${subjectAltName}\n`);
    const signer = ["-CA", `${authority}.pem`, "-CAkey", `${authority}.key`, "-CAcreateserial"];
    const given = ["-in", `${name}.csr`, "-extfile", "names.txt"];
    this.#openssl("x509", "-req", ...given, ...signer, "-days", String(days), "-out", `${name}.pem`);
  }

  /** Makes `live.pem` and `live.key` those of `name`, each replaced atomically. */
  show(name: string): void {
    for (const part of ["key", "pem"]) {
      copyFileSync(this.file(`${name}.${part}`), this.file(`new.${part}`));
      renameSync(this.file(`new.${part}`), this.file(`live.${part}`));
    }
  }

  client(name?: string) {
    const read = (file: string) => readFileSync(this.file(file));
    const own = name === undefined ? {} : { cert: read(`${name}.pem`), key: read(`${name}.key`) };
    return { ...own, ca: read("authority.pem"), servername: "localhost" };
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #subject(name: string): readonly string[] {
    return ["-subj", `/CN=${name}`, "-keyout", `${name}.key`];
  }

  #openssl(...args: readonly string[]): void {
    execFileSync("openssl", args, { stdio: "pipe", cwd: this.#folder });
  }
}
