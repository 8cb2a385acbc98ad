import { independentValidator } from "./independent-validator.ts";

export type PublishedDocument = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
  readonly components: object;
};

type Content = Readonly<Record<string, { readonly schema: object }>>;
type Operation = {
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content: Content }>>;
};

const JSON_TYPE = "application/json";

/** Validates requests and replies against a published document, as an independent client would. */
export class PublishedContract {
  readonly #document: PublishedDocument;
  readonly #validators = new Map<object, (value: unknown) => boolean>();

  constructor(document: PublishedDocument) {
    this.#document = document;
  }

  takes(path: string, body: unknown): boolean {
    return this.#holds(this.#operation(path).requestBody?.content[JSON_TYPE]?.schema, body);
  }

  replies(path: string, status: number, body: unknown): boolean {
    const { responses } = this.#operation(path);
    return this.#holds((responses[status] ?? responses.default)?.content[JSON_TYPE]?.schema, body);
  }

  /** Returns the frames of a path's stream that the document does not describe; `[DONE]` is ignored. */
  unknownFrames(path: string, stream: string): readonly string[] {
    const schema = this.#operation(path).responses["200"]?.content["text/event-stream"]?.schema;
    const frames = stream.split("\n").filter((line) => line.startsWith("data: ") && line !== "data: [DONE]");
    if (frames.length === 0) return ["there is none"];
    return frames.filter((line) => !this.#holds(schema, JSON.parse(line.slice("data: ".length))));
  }

  #operation(path: string): Operation {
    const [operation] = Object.values(this.#document.paths[path.split("?", 1)[0] ?? ""] ?? {});
    if (!operation) throw new Error(`the document has no ${path}`);
    return operation as Operation;
  }

  #holds(schema: object | undefined, value: unknown): boolean {
    if (!schema) return false;
    const known = this.#validators.get(schema);
    const validate = known ?? independentValidator({ components: this.#document.components, ...schema });
    if (!known) this.#validators.set(schema, validate);
    return validate(value);
  }
}
