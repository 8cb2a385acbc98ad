import { deserialize, serialize } from "node:v8";
import type { Message, Part } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Conversation } from "./chat-template.ts";
import { PART_SEPARATOR } from "./model-history.ts";

/** The maximum message parts that are packed at once: about a millisecond of work. */
const MAX_PARTS = 500;
const MAX_UNITS = 1_000_000;

/** Serialized in portions: posting a large request of small parts as objects takes 100 ms at once. */
export type PackedConversation = Omit<Conversation, "messages"> & { readonly messages: readonly Uint8Array[] };

/** A message or its beginning; `goesOn` if the next fragment continues it. */
type Fragment = { readonly message: Message; readonly goesOn: boolean };

/** Packs a conversation. `turn` is awaited between portions, and may throw to cancel. */
export async function packConversation(
  conversation: Conversation,
  turn: () => Promise<void>,
): Promise<PackedConversation> {
  const packed: Uint8Array[] = [];
  let portion: Fragment[] = [];
  let parts = 0;
  let units = 0;
  for (const fragment of fragments(conversation.messages)) {
    portion.push(fragment);
    parts += 1 + fragment.message.parts.length;
    units += fragment.message.parts.reduce((sum, part) => sum + unitsOf(part), 0);
    if (parts < MAX_PARTS && units < MAX_UNITS) continue;
    packed.push(serialize(portion));
    portion = [];
    parts = 0;
    units = 0;
    await turn();
  }
  packed.push(serialize(portion));
  return { ...conversation, messages: packed };
}

export function unpackConversation(packed: PackedConversation): Conversation {
  const messages: Message[] = [];
  let begun: Part[] = [];
  for (const bytes of packed.messages) {
    for (const { message, goesOn } of deserialize(bytes) as readonly Fragment[]) {
      // `packConversation` serialized these types
      if (goesOn) begun.push(...message.parts);
      else {
        messages.push(begun.length === 0 ? message : { ...message, parts: [...begun, ...message.parts] });
        begun = [];
      }
    }
  }
  return { ...packed, messages };
}

function* fragments(messages: readonly Message[]): Generator<Fragment, void, void> {
  for (const message of messages) {
    const parts = joinedTexts(message.parts);
    for (let from = 0; ; from += MAX_PARTS) {
      const goesOn = from + MAX_PARTS < parts.length;
      yield { message: { ...message, parts: parts.slice(from, from + MAX_PARTS) }, goesOn };
      if (!goesOn) break;
    }
  }
}

/** Joins adjacent texts as templates do, so that thousands of small texts become one. */
function joinedTexts(parts: readonly Part[]): readonly Part[] {
  if (parts.length < 2) return parts[0]?.kind?.$case === "toolResult" ? parts.map(joinedResult) : parts;
  const joined: Part[] = [];
  let texts: string[] = [];
  const flush = () => {
    if (texts.length > 0) joined.push(textPart(texts.join(PART_SEPARATOR)));
    texts = [];
  };
  for (const part of parts) {
    if (part.kind?.$case === "text" && !part.cacheBreakpoint) texts.push(part.kind.value.text);
    else {
      flush();
      joined.push(joinedResult(part));
    }
  }
  flush();
  return joined;
}

function joinedResult(part: Part): Part {
  const { kind } = part;
  if (kind?.$case !== "toolResult") return part;
  return { ...part, kind: { $case: "toolResult", value: { ...kind.value, content: joinedTexts(kind.value.content) } } };
}

function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } }, cacheBreakpoint: undefined };
}

function unitsOf({ kind }: Part): number {
  switch (kind?.$case) {
    case "text":
    case "reasoning":
      return kind.value.text.length;
    case "toolCall":
      return kind.value.argumentsJson.length;
    case "toolResult":
      return kind.value.content.reduce((sum, part) => sum + unitsOf(part), 0);
    default:
      return 0;
  }
}
