import { describe, expect, test } from "vitest";
import { shownCallId } from "../../../../gateway/formats/completion.ts";
import { HEAD } from "../../../support/events/encoding-context.ts";

describe("a call has an id in the format's own form, whatever the engine created", () => {
  test.each([
    ["call_0123abcd", "0123abcd"],
    ["toolu_0123abcd", "0123abcd"],
    ["chatcmpl-tool-0123abcd", "0123abcd"],
    ["aB3dE5fG7", "aB3dE5fG7"],
  ])("%s only needs its prefix", (minted, core) => {
    expect(shownCallId("call_", minted, HEAD)).toBe(`call_${core}`);
    expect(shownCallId("toolu_", minted, HEAD)).toBe(`toolu_${core}`);
  });

  test.each(["functions.read:0", "functions.mcp.read:0", "", "é", "a b", "x".repeat(200)])(
    "%s is replaced, by one that no other answer has",
    (minted) => {
      const shown = shownCallId("toolu_", minted, HEAD);
      expect(shown).toMatch(/^toolu_[A-Za-z0-9_-]{1,58}$/);
      expect(shownCallId("toolu_", minted, HEAD)).toBe(shown);
      expect(shownCallId("toolu_", minted, { replyId: "another" })).not.toBe(shown);
      expect(shownCallId("toolu_", `${minted}1`, HEAD)).not.toBe(shown);
    },
  );
});
