import { createHash } from "node:crypto";

/** A Lua script, which the store runs atomically. */
export class RedisScript {
  readonly text: string;
  /** SHA-1 of the text in hex, for EVALSHA. */
  readonly sha: string;

  constructor(text: string) {
    this.text = text;
    this.sha = createHash("sha1").update(text).digest("hex");
  }
}
