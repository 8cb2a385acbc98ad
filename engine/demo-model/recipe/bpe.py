"""Byte-level BPE with the byte alphabet of GPT-2 and the pre-tokenizer rules that llama.cpp calls "qwen2"."""

import argparse
import json
import re
from collections import Counter, defaultdict

from dialogues import dialogue, render

CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Visible in the output, unlike the control tokens.
MARKER_TOKENS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
]
SPECIAL_TOKENS = CONTROL_TOKENS + MARKER_TOKENS

WORD = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|(?:[^\r\n\w]|_)?[^\W\d_]+"
    r"|\d"
    r"| ?(?:[^\s\w]|_)+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
SPECIAL = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL_TOKENS) + ")")

MAX_CACHED_WORDS = 400000


def byte_alphabet():
    """A printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in alphabet:
            alphabet[byte] = chr(256 + len(alphabet) - len(printable))
    return alphabet


CHARACTER_OF_BYTE = byte_alphabet()
BYTE_OF_CHARACTER = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}


def spell(word):
    """The word in the alphabet of bytes."""
    return "".join(CHARACTER_OF_BYTE[byte] for byte in word.encode("utf-8"))


def count_words(texts):
    """How often each word occurs, special tokens left out."""
    words = Counter()
    for text in texts:
        for part in SPECIAL.split(text):
            if part and not SPECIAL.fullmatch(part):
                words.update(WORD.findall(part))
    return words


def merge_pair(symbols, pair):
    """The symbols with every occurrence of the pair joined."""
    merged = []
    position = 0
    while position < len(symbols):
        if tuple(symbols[position : position + 2]) == pair:
            merged.append(pair[0] + pair[1])
            position += 2
        else:
            merged.append(symbols[position])
            position += 1
    return merged


def learn(texts, size):
    """The vocabulary, special tokens last, and the merges in the order they were learned."""
    words = count_words(texts)
    spellings = [list(spell(word)) for word in words]
    frequencies = list(words.values())
    pair_counts = Counter()
    words_with_pair = defaultdict(set)
    for index, symbols in enumerate(spellings):
        for pair in zip(symbols, symbols[1:]):
            pair_counts[pair] += frequencies[index]
            words_with_pair[pair].add(index)

    vocabulary = sorted(CHARACTER_OF_BYTE.values())
    merges = []
    while len(vocabulary) < size - len(SPECIAL_TOKENS):
        best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
        if pair_counts[best] < 2:
            break
        merges.append(best)
        vocabulary.append(best[0] + best[1])
        for index in list(words_with_pair[best]):
            symbols = spellings[index]
            for pair in zip(symbols, symbols[1:]):
                pair_counts[pair] -= frequencies[index]
            symbols = merge_pair(symbols, best)
            spellings[index] = symbols
            for pair in zip(symbols, symbols[1:]):
                pair_counts[pair] += frequencies[index]
                words_with_pair[pair].add(index)
        del pair_counts[best], words_with_pair[best]
    return vocabulary + SPECIAL_TOKENS, merges


class Tokenizer:
    """Encodes and decodes with a learned vocabulary."""

    def __init__(self, path):
        with open(path) as file:
            learned = json.load(file)
        self.vocabulary = learned["vocab"]
        self.merges = [tuple(merge) for merge in learned["merges"]]
        self.id_of = {token: index for index, token in enumerate(self.vocabulary)}
        self.rank_of = {merge: rank for rank, merge in enumerate(self.merges)}
        self.cache = {}

    def encode_word(self, word):
        """The tokens of one word of the pre-tokenizer."""
        known = self.cache.get(word)
        if known is not None:
            return known
        symbols = list(spell(word))
        never = len(self.merges)
        while len(symbols) > 1:
            ranks = [self.rank_of.get(pair, never) for pair in zip(symbols, symbols[1:])]
            best = min(ranks)
            if best == never:
                break
            position = ranks.index(best)
            symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]
        tokens = [self.id_of[symbol] for symbol in symbols]
        if len(self.cache) < MAX_CACHED_WORDS:
            self.cache[word] = tokens
        return tokens

    def encode(self, text):
        """The tokens of a text; special tokens are recognised by their spelling."""
        tokens = []
        for part in SPECIAL.split(text):
            if SPECIAL.fullmatch(part):
                tokens.append(self.id_of[part])
            else:
                for word in WORD.findall(part):
                    tokens += self.encode_word(word)
        return tokens

    def decode(self, tokens):
        """The text of tokens."""
        first_special = len(self.vocabulary) - len(SPECIAL_TOKENS)
        parts = []
        for token in tokens:
            spelling = self.vocabulary[token]
            if token >= first_special:
                parts.append(spelling.encode())
            else:
                parts.append(bytes(BYTE_OF_CHARACTER[character] for character in spelling))
        return b"".join(parts).decode("utf-8", "replace")


def main():
    parser = argparse.ArgumentParser(description="Learns the vocabulary from generated dialogues.")
    parser.add_argument("out", help="the vocabulary and merges, as JSON")
    parser.add_argument("--size", type=int, default=2560, help="tokens, special ones included")
    parser.add_argument("--dialogues", type=int, default=12000)
    arguments = parser.parse_args()
    texts = ["".join(text for text, _ in render(dialogue(f"tok{index}"))) for index in range(arguments.dialogues)]
    vocabulary, merges = learn(texts, arguments.size)
    with open(arguments.out, "w") as file:
        json.dump({"vocab": vocabulary, "merges": merges}, file, ensure_ascii=True)

    tokenizer = Tokenizer(arguments.out)
    sample = texts[:500]
    if any(tokenizer.decode(tokenizer.encode(text)) != text for text in sample):
        raise SystemExit("a text does not survive encoding and decoding")
    characters = sum(len(text) for text in sample)
    tokens = sum(len(tokenizer.encode(text)) for text in sample)
    print(f"vocabulary {len(vocabulary)}, merges {len(merges)}, characters per token {characters / tokens:.2f}")


if __name__ == "__main__":
    main()
