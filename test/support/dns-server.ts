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

/** The answer to a question: the addresses of the name, or how the server fails. */
export type DnsAnswer = readonly string[] | "NXDOMAIN" | "SERVFAIL" | "silence";

/** The only port that /etc/resolv.conf has. */
const DNS_PORT = 53;
/** Longer answers go over TCP. */
const MAX_UDP_BYTES = 512;
const RCODES = { NXDOMAIN: 3, SERVFAIL: 2 } as const;

/** Runs the rest of its arguments with its first one as /etc/resolv.conf, which it has for itself alone. */
const WITH_RESOLV_CONF = 'mount --bind "$0" /etc/resolv.conf && exec "$@"';

/** Returns why no program can be given a resolver of its own on this machine; undefined when one can. */
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

/** A name server on an address of its own; what it says has a time to live of zero. */
export class DnsServer {
  /** The answer to questions for names that `answers` has not, from now on; empty at first. */
  answer: DnsAnswer = [];
  /** The only name that there is, others do not exist; undefined, as at first, where every name is there. */
  only: string | undefined;
  /** The answers to questions for these names, from now on. */
  readonly answers = new Map<string, DnsAnswer>();
  /** The number of questions for IPv4 addresses so far. */
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
        // Questions for both families come in one piece.
        for (let length = lengthOf(unread); unread.length >= length; length = lengthOf(unread)) {
          const reply = this.#replyTo(streamDecode(unread.subarray(0, length)));
          unread = unread.subarray(length);
          if (reply) socket.write(streamEncode(reply));
        }
      });
    });
  }

  /**
   * Starts a name server on port 53 of `address`, which is one of this host. Hosts that ask it look for short names in the
   * domain `search`, as pods do; in none by default.
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

  /** The command that runs a program on a host which asks this server. */
  get through(): readonly string[] {
    return ["unshare", "--mount", "sh", "-c", WITH_RESOLV_CONF, join(this.#folder, "resolv.conf")];
  }

  /** Stops the server and removes its files. */
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
 * Returns the length of the first message of a TCP stream, its own length field included; without one, more than there
 * is.
 */
function lengthOf(bytes: Buffer): number {
  return bytes.length < 2 ? 2 : 2 + bytes.readUInt16BE();
}
