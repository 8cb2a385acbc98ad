/**
 * The first line of `input`, without the blanks around it. Reads no further than the line, or than `maxLength` characters
 * need: what comes back may then be longer than that, but is cut.
 */
export async function readLine(input: AsyncIterable<string | Uint8Array>, maxLength: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of input) {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    if (text.includes("\n") || text.length > maxLength) break;
  }
  return (text.split("\n")[0] ?? "").trim();
}
