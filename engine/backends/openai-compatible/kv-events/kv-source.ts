import { asText, type JsonFields } from "../http/json-fields.ts";
import type { FeedAddress } from "./event-feed.ts";

/** The form of a ZeroMQ endpoint that a node can connect to or listen at. */
const ENDPOINT = /^(tcp:\/\/[^\s/]+:\d{1,5}|ipc:\/\/\S+)$/;

/**
 * Returns where a rank publishes its KV events, by the engine's own configuration of the publisher; undefined if it does
 * not. vLLM and SGLang listen at an endpoint with a wildcard or of another process on the host, and connect to any other
 * one; `bind` of SGLang has it listen there, too. `host` is that of the engine.
 */
export function kvSource(
  { publisher, endpoint, replay_endpoint: replay, bind }: JsonFields,
  host: string,
  rank = 0,
): FeedAddress | undefined {
  const configured = asText(endpoint);
  if (publisher !== "zmq" || !ENDPOINT.test(configured)) return undefined;
  const reachable = (address: string) => ofRank(address, rank).replace(/^tcp:\/\/(\*|\[?::\]?)(?=:)/, `tcp://${host}`);
  return {
    endpoint: reachable(configured),
    listen: bind !== true && configured.startsWith("tcp://") && !/\*|::/.test(configured),
    replayEndpoint: ENDPOINT.test(asText(replay)) ? reachable(asText(replay)) : undefined,
  };
}

/** Returns the endpoint of a rank: ranks use consecutive ports. */
function ofRank(endpoint: string, rank: number): string {
  return rank === 0 ? endpoint : endpoint.replace(/\d+$/, (port) => String(Number(port) + rank));
}
