import { createHash } from "node:crypto";

/** A Lua script that runs in the store as a whole: nothing else happens there meanwhile. */
export class RedisScript {
  /** The text of the script. */
  readonly text: string;
  /** The SHA-1 of the text in hex, by which a store that knows the script runs it. */
  readonly sha: string;

  constructor(text: string) {
    this.text = text;
    this.sha = createHash("sha1").update(text).digest("hex");
  }
}
