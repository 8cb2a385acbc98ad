/* The Markdown of answers as elements: headings, lists, code, bold and italic text. No text becomes markup or a link. */
import { make } from "./dom.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*/g;

/** Appends a text with its code, bold and italic parts. */
export function inline(parent, text) {
  let from = 0;
  for (const { 0: whole, 1: code, 2: bold, 3: italic, index } of text.matchAll(INLINE)) {
    parent.append(text.slice(from, index));
    make(code ? "code" : bold ? "strong" : "em", parent, code ?? bold ?? italic);
    from = index + whole.length;
  }
  parent.append(text.slice(from));
}

/** Shows `text` in `node`, in place of its content. */
export function showMarkdown(node, text) {
  node.replaceChildren();
  let list;
  let paragraph;
  const parts = text.split(/^```[^\n]*\n([\s\S]*?)(?:^```[ \t]*$|$(?![\s\S]))/m);
  for (const [at, part] of parts.entries()) {
    list = paragraph = undefined;
    if (at % 2 === 1) {
      make("pre", node, part.replace(/\n$/, ""));
      continue;
    }
    for (const line of part.split("\n")) {
      const item = /^\s*(?:[-*]|(\d+)[.)])\s+(.*)$/.exec(line);
      const heading = /^#{1,6}\s+(.*)$/.exec(line);
      if (item) {
        const kind = item[1] ? "ol" : "ul";
        if (list?.localName !== kind) list = make(kind, node);
        if (item[1] && !list.firstChild) list.start = Number(item[1]);
        inline(make("li", list), item[2]);
      } else if (heading) inline(make("h4", node), heading[1]);
      else if (line.trim() !== "") {
        if (paragraph) paragraph.append("\n");
        else paragraph = make("p", node);
        inline(paragraph, line);
      }
      if (!item) list = undefined;
      if (item || heading || line.trim() === "") paragraph = undefined;
    }
  }
}
