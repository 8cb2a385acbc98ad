import { CallArguments } from "./call-arguments.ts";
import type { Value } from "./library.ts";
import { isEqual } from "./operators.ts";
import { pythonText, type Quote } from "./python-text.ts";
import { capitalized, formatted, linesOf, replaced, split, splitFromRight, stripped, titled } from "./text-forms.ts";
import {
  boolean,
  callable,
  type DictValue,
  integer,
  isDict,
  isList,
  isNone,
  isText,
  itemsOf,
  keyOf,
  keyValue,
  type ListValue,
  list,
  NONE,
  text,
  tuple,
  UNDEFINED,
} from "./values.ts";

type Method<Self> = (self: Self, args: CallArguments, quote: Quote) => Value;
type Methods<Self> = Readonly<Record<string, Method<Self>>>;

export function methodOf(value: Value, name: string, quote: Quote): Value | undefined {
  if (isText(value)) return bound(TEXT_METHODS, value.value, name, quote);
  if (isDict(value)) return bound(DICT_METHODS, value, name, quote);
  return isList(value) ? bound(LIST_METHODS, value, name, quote) : undefined;
}

function bound<Self>(methods: Methods<Self>, self: Self, name: string, quote: Quote): Value | undefined {
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  return method && callable((args) => method(self, CallArguments.of(args), quote));
}

const texts = (values: readonly string[]): Value => list(values.map(text));

const strip = (start: boolean, end: boolean): Method<string> => {
  return (self, args) => {
    const characters = args.get(0);
    const cut = characters && !isNone(characters) ? args.text(0, "chars", "") : undefined;
    return text(stripped(self, cut, { start, end }));
  };
};

const splitting = (cut: typeof split): Method<string> => {
  return (self, args) => {
    const separator = args.get(0, "sep");
    const at = separator && !isNone(separator) ? args.text(0, "sep", "") : undefined;
    return texts(cut(self, at, args.number(1, "maxsplit", -1)));
  };
};

const asking = (ask: (self: string, other: string) => boolean): Method<string> => {
  return (self, args) => {
    const asked = args.need(0);
    const others = isList(asked) ? asked.value : [asked];
    return boolean(
      others.some((other) => {
        if (!isText(other)) throw new Error("the argument has to be a text or a tuple of texts");
        return ask(self, other.value);
      }),
    );
  };
};

const matching =
  (pattern: RegExp): Method<string> =>
  (self) =>
    boolean(pattern.test(self));

const parted = (self: string, at: number, separator: string): Value =>
  tuple([self.slice(0, at), separator, self.slice(at + separator.length)].map(text));

const TEXT_METHODS: Methods<string> = {
  capitalize: (self) => text(capitalized(self)),
  count: (self, args) => integer(self.split(args.text(0, "", "")).length - 1),
  endswith: asking((self, other) => self.endsWith(other)),
  find: (self, args) => integer(self.indexOf(args.text(0, "", ""))),
  format: (self, args, quote) => {
    return text(formatted(self, (name) => pythonText(args.need(/^\d+$/.test(name) ? Number(name) : -1, name), quote)));
  },
  isalnum: matching(/^[\p{L}\p{N}]+$/u),
  isalpha: matching(/^\p{L}+$/u),
  isdigit: matching(/^\p{Nd}+$/u),
  islower: (self) => boolean(self === self.toLowerCase() && self !== self.toUpperCase()),
  isspace: matching(/^\s+$/),
  isupper: (self) => boolean(self === self.toUpperCase() && self !== self.toLowerCase()),
  join: (self, args, quote) =>
    text(
      itemsOf(args.need(0))
        .map((one) => pythonText(one, quote))
        .join(self),
    ),
  lower: (self) => text(self.toLowerCase()),
  lstrip: strip(true, false),
  partition: (self, args) => {
    const separator = args.text(0, "", "");
    const at = self.indexOf(separator);
    return at < 0 ? tuple([self, "", ""].map(text)) : parted(self, at, separator);
  },
  removeprefix: (self, args) => {
    const prefix = args.text(0, "", "");
    return text(self.startsWith(prefix) ? self.slice(prefix.length) : self);
  },
  removesuffix: (self, args) => {
    const suffix = args.text(0, "", "");
    return text(suffix !== "" && self.endsWith(suffix) ? self.slice(0, -suffix.length) : self);
  },
  replace: (self, args) => {
    return text(replaced(self, args.text(0, "old", ""), args.text(1, "new", ""), args.number(2, "count", -1)));
  },
  rfind: (self, args) => integer(self.lastIndexOf(args.text(0, "", ""))),
  rpartition: (self, args) => {
    const separator = args.text(0, "", "");
    const at = self.lastIndexOf(separator);
    return at < 0 ? tuple(["", "", self].map(text)) : parted(self, at, separator);
  },
  rsplit: splitting(splitFromRight),
  rstrip: strip(false, true),
  split: splitting(split),
  splitlines: (self) => texts(linesOf(self)),
  startswith: asking((self, other) => self.startsWith(other)),
  strip: strip(true, true),
  title: (self) => text(titled(self)),
  upper: (self) => text(self.toUpperCase()),
};

const DICT_METHODS: Methods<DictValue> = {
  copy: (self) => Reflect.construct(self.constructor, [new Map(self.value)]),
  get: (self, args) => {
    const key = keyOf(args.need(0));
    return (key === undefined ? undefined : self.value.get(key)) ?? args.get(1) ?? NONE;
  },
  items: (self) => list([...self.value].map(([key, value]) => tuple([keyValue(key), value]))),
  keys: (self) => list([...self.value.keys()].map(keyValue)),
  values: (self) => list([...self.value.values()]),
};

/** transformers forbids the methods that change a list, but templates written for llama.cpp use them. */
const LIST_METHODS: Methods<ListValue> = {
  append: (self, args) => {
    self.value.push(args.need(0));
    return NONE;
  },
  copy: (self) => list([...self.value]),
  count: (self, args) => integer(self.value.filter((one) => isEqual(one, args.need(0))).length),
  index: (self, args) => {
    const at = self.value.findIndex((one) => isEqual(one, args.need(0)));
    if (at < 0) throw new Error("the list has no such item");
    return integer(at);
  },
  pop: (self, args) => self.value.splice(args.number(0, "", -1), 1)[0] ?? UNDEFINED,
};
