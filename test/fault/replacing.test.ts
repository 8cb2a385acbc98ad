import { chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../support/certificates.ts";
import { closedLoop, tallyOf } from "../support/processes/closed-loop.ts";
import { Fleet, healthy, show, size } from "../support/processes/fleet.ts";

/*
 * Everything around the answers is replaced while clients read streams and send new requests: none of these may fail.
 * The gateways behind Envoy: test/fault/edge/rolling.test.ts. The nodes: test/fault/continuation.test.ts. Their
 * addresses: test/fault/front/life-cycle.test.ts. Their revision: test/integration/http/lost-engines.test.ts.
 */

const CLIENTS = size(3, 40);
/** Answers of about a second, longer than the detection of any change. */
const ANSWERS = { tokensPerSecond: 60, answerTokens: { min: 50, max: 80 }, slots: 64 };

const fleet = new Fleet();

test.skipIf(!HAS_OPENSSL)(
  `certificates of nodes and gateway are replaced, and their authority (${NO_OPENSSL})`,
  async () => {
    const files = new Certificates();
    fleet.onEnd(() => files.remove());
    const put = (name: string, from: string) => {
      for (const kind of ["key", "pem"]) {
        chmodSync(files.file(`${from}.${kind}`), 0o600);
        renameSync(files.file(`${from}.${kind}`), files.file(`${name}.${kind}`));
      }
    };
    const issue = (authority: string) => {
      for (const name of ["node", "gateway"]) {
        files.signed(`next-${name}`, authority, "IP:127.0.0.1");
        put(name, `next-${name}`);
      }
    };
    const of = (name: string) => ({ certFile: files.file(`${name}.pem`), keyFile: files.file(`${name}.key`) });
    files.authority("old");
    files.authority("new");
    const trust = (...names: readonly string[]) => {
      writeFileSync(
        files.file("next.pem"),
        names.map((name) => readFileSync(files.file(`${name}.pem`), "utf8")).join(""),
      );
      renameSync(files.file("next.pem"), files.file("trusted.pem"));
    };
    trust("old");
    issue("old");
    const tls = { ...of("node"), clientCaFile: files.file("trusted.pem") };
    const nodes = await Promise.all([0, 1].map((at) => fleet.engine(`node${at}`, ANSWERS, ["svc-qwen"], { tls })));
    const gateway = await fleet.inFrontOf(nodes, { tls: { caFile: files.file("trusted.pem"), ...of("gateway") } });
    const load = closedLoop(gateway, CLIENTS);
    const goOn = async () => {
      const wanted = load.ended.length + CLIENTS;
      await becomes(async () => load.ended.length >= wanted, "the clients get answers");
    };
    await goOn();
    const loads = () => gateway.process.log.filter(({ msg }) => String(msg).startsWith("certificates loaded")).length;
    const steps = [() => trust("old", "new"), () => issue("new"), () => trust("new")];
    for (const [at, step] of steps.entries()) {
      const before = loads();
      step();
      await becomes(async () => loads() > before, "the gateway has the new files");
      // Open connections stay: only a restarted node has new ones.
      const node = nodes[at % nodes.length];
      expect(await node?.stop()).toBe(0);
      await node?.startAgain();
      await healthy(gateway, node?.address ?? "");
    }
    await goOn();
    const ended = await load.finish(load.ended.length);
    show("certificates", { clients: CLIENTS, answers: ended.length });
    expect(tallyOf(ended)).toEqual({ complete: ended.length });
  },
);
