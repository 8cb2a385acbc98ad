import { execFileSync } from "node:child_process";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Answer,
  AUTHORITATIVE_ANSWER,
  decode,
  encode,
  type Packet,
  streamDecode,
  streamEncode,
  TRUNCATED_RESPONSE,
} from "dns-packet";

/** The answer to a question: the addresses of the name, or the kind of failure. */
export type DnsAnswer = readonly string[] | "NXDOMAIN" | "SERVFAIL" | "silence";

/** The only port that /etc/resolv.conf supports. */
const DNS_PORT = 53;
/** Longer answers go over TCP. */
const MAX_UDP_BYTES = 512;
const RCODES = { NXDOMAIN: 3, SERVFAIL: 2 } as const;

/** Runs its further arguments as a command with its first one as /etc/resolv.conf, in its own mount namespace. */
const WITH_RESOLV_CONF = 'mount --bind "$0" /etc/resolv.conf && exec "$@"';

/** Returns why programs cannot have their own resolver on this machine; undefined if they can. */
export function whyNoOwnResolver(): string | undefined {
  if (process.platform !== "linux") return "mount namespaces are Linux's";
  if (process.getuid?.() !== 0) return "only root may mount";
  try {
    execFileSync("unshare", ["--mount", "sh", "-c", WITH_RESOLV_CONF, "/etc/hosts", "true"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "`unshare --mount` fails here, or the container may not";
  }
}

/** A name server on its own address; its answers have a TTL of zero. */
export class DnsServer {
  /** Answer to questions for names without an entry in `answers`; empty at first. */
  answer: DnsAnswer = [];
  /** The only existing name; undefined, the initial value, if every name exists. */
  only: string | undefined;
  readonly answers = new Map<string, DnsAnswer>();
  questions = 0;
  readonly #udp: Socket = createSocket("udp4");
  readonly #tcp: Server;
  readonly #folder: string;

  private constructor() {
    this.#folder = mkdtempSync(join(tmpdir(), "svc-dns-"));
    this.#udp.on("message", (bytes, { port, address }) => {
      const reply = this.#replyTo(decode(bytes));
      if (!reply) return;
      const whole = encode(reply);
      const fits = whole.length <= MAX_UDP_BYTES;
      this.#udp.send(
        fits ? whole : encode({ ...reply, flags: AUTHORITATIVE_ANSWER | TRUNCATED_RESPONSE, answers: [] }),
        port,
        address,
      );
    });
    this.#tcp = createServer((socket) => {
      socket.on("error", () => {});
      let unread = Buffer.alloc(0);
      socket.on("data", (bytes) => {
        unread = Buffer.concat([unread, bytes]);
        // Questions for both families arrive in one piece.
        for (let length = lengthOf(unread); unread.length >= length; length = lengthOf(unread)) {
          const reply = this.#replyTo(streamDecode(unread.subarray(0, length)));
          unread = unread.subarray(length);
          if (reply) socket.write(streamEncode(reply));
        }
      });
    });
  }

  /**
   * Starts a name server on port 53 of `address`, an address of this host. Its clients resolve short names in the
   * domain `search`, as pods do; by default in none.
   */
  static async start(address: string, search?: string): Promise<DnsServer> {
    const server = new DnsServer();
    server.#udp.bind(DNS_PORT, address);
    await once(server.#udp, "listening");
    server.#tcp.listen(DNS_PORT, address);
    await once(server.#tcp, "listening");
    const domain = search === undefined ? [] : [`search ${search}`, "options ndots:5"];
    const lines = [`nameserver ${address}`, "options timeout:1 attempts:1", ...domain];
    writeFileSync(join(server.#folder, "resolv.conf"), `${lines.join("\n")}\n`);
    return server;
  }

  get through(): readonly string[] {
    return ["unshare", "--mount", "sh", "-c", WITH_RESOLV_CONF, join(this.#folder, "resolv.conf")];
  }

  stop(): void {
    this.#udp.close();
    this.#tcp.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #replyTo({ id = 0, questions = [] }: Packet): Packet | undefined {
    const [question] = questions;
    if (question?.type === "A") this.questions += 1;
    const answer = this.answers.get(question?.name ?? "") ?? this.answer;
    if (!question || answer === "silence") return undefined;
    const head = { id, type: "response", questions } as const;
    if (answer === "NXDOMAIN" || answer === "SERVFAIL")
      return { ...head, flags: AUTHORITATIVE_ANSWER | RCODES[answer], answers: [] };
    const { name, type } = question;
    if (this.only !== undefined && this.only !== name)
      return { ...head, flags: AUTHORITATIVE_ANSWER | RCODES.NXDOMAIN, answers: [] };
    const answers: Answer[] = type === "A" ? answer.map((data) => ({ type: "A", name, ttl: 0, data })) : [];
    return { ...head, flags: AUTHORITATIVE_ANSWER, answers };
  }
}

/**
 * Returns the length of the first message of a TCP stream, including its length field; without a message, more than the
 * received bytes.
 */
function lengthOf(bytes: Buffer): number {
  return bytes.length < 2 ? 2 : 2 + bytes.readUInt16BE();
}
