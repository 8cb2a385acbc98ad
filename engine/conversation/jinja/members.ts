import { methodOf } from "./methods.ts";
import type { Quote } from "./operators.ts";
import { isDict, isList, isNamespace, isNone, isNumber, isText, list, text, tuple, type Value } from "./values.ts";

/** Returns the item of a mapping, list or text; undefined if there is none. Negative numbers count from the end. */
export function itemOf(value: Value, key: string | number): Value | undefined {
  if (isDict(value) || isNamespace(value)) return value.value.get(key);
  if (typeof key === "string") return undefined;
  if (isList(value)) return value.value.at(key);
  const character = isText(value) ? [...value.value].at(key) : undefined;
  return character === undefined ? undefined : text(character);
}

/** Returns `value.name`: a method, else an item; undefined if there is neither. */
export function memberOf(value: Value, name: string, quote: Quote): Value | undefined {
  return methodOf(value, name, quote) ?? itemOf(value, name);
}

/** Returns a part of a list or text as Python's slices do. Throws for other values, and for a step of 0. */
export function sliced(value: Value, start?: Value, stop?: Value, by?: Value): Value {
  if (!isText(value) && !isList(value)) throw new Error(`a value of the type ${value.type} has no slices`);
  const items = isText(value) ? [...value.value] : value.value;
  const step = boundOf(by) ?? 1;
  if (step === 0) throw new Error("the step of a slice is 0");
  const [lowest, highest] = step > 0 ? [0, items.length] : [-1, items.length - 1];
  const placed = (bound: number | undefined, otherwise: number) =>
    bound === undefined ? otherwise : Math.min(Math.max(bound < 0 ? bound + items.length : bound, lowest), highest);
  const [from, end] = step > 0 ? [lowest, highest] : [highest, lowest];
  const [first, last] = [placed(boundOf(start), from), placed(boundOf(stop), end)];
  const length = Math.max(0, Math.ceil((last - first) / step));
  const picked = Array.from({ length }, (_, index) => items[first + index * step]);
  if (isText(value)) return text(picked.join(""));
  const values = picked.filter((one): one is Value => typeof one === "object");
  return value.type === "tuple" ? tuple(values) : list(values);
}

function boundOf(value: Value | undefined): number | undefined {
  if (value === undefined || isNone(value)) return undefined;
  if (!isNumber(value) || !Number.isInteger(value.value)) throw new Error("a slice has other bounds than integers");
  return value.value;
}
