/** Reads a body piece by piece. */
export type BodyReader = {
  /** Returns everything read so far. */
  readonly text: () => string;
  /** Reads on until `found` holds for the text so far; throws when the body ends before. */
  until(found: (text: string) => boolean): Promise<void>;
  /** Reads on to the end, and resolves to the whole text. Rejects when the connection is cut before. */
  toEnd(): Promise<string>;
  /** Reads on for as long as something comes, and resolves to the whole text and whether the connection was cut. */
  toEndOrCut(): Promise<{ readonly text: string; readonly cut: boolean }>;
  /** Leaves the body unread, and with that its connection. Resolves when it has. */
  leave(): Promise<void>;
};

/** Makes the reader of a response's body. Throws when the response has none. */
export function readBody(response: Response): BodyReader {
  if (!response.body) throw new Error("the response has no body");
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const more = async (): Promise<boolean> => {
    const piece = await reader.read();
    if (!piece.done) text += decoder.decode(piece.value, { stream: true });
    return !piece.done;
  };
  const rest = async (): Promise<string> => {
    while (await more());
    return text;
  };
  return {
    text: () => text,
    async until(found) {
      while (!found(text)) if (!(await more())) throw new Error("the body ended too early");
    },
    toEnd: rest,
    toEndOrCut: () =>
      rest().then(
        () => ({ text, cut: false }),
        () => ({ text, cut: true }),
      ),
    leave: () => reader.cancel(),
  };
}
