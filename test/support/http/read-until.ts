export type BodyReader = ReturnType<typeof readBody>;

/** Makes the reader of a response's body. Throws if it has none. */
export function readBody(response: Response) {
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
    /** Reads until `found` holds for the text so far; throws if the body ends before. */
    async until(found: (text: string) => boolean): Promise<void> {
      while (!found(text)) if (!(await more())) throw new Error("the body ended too early");
    },
    /** Reads to the end, and resolves to the whole text. Rejects if the connection is closed before. */
    toEnd: rest,
    toEndOrCut: () =>
      rest().then(
        () => ({ text, cut: false }),
        () => ({ text, cut: true }),
      ),
    leave: () => reader.cancel(),
  };
}
