"""Checks texts against grammars with xgrammar and a made-up vocabulary of as many tokens as the first argument says.

Each line of the input is `{"grammar": …, "texts": […], "cached": …}`, where `cached` is whether xgrammar's cache is on, and
each of the output `{"ms": …, "bytes": …, "allowed": […]}`, with the processor time that the grammar took to compile and
the size of the compiled grammar, or `{"error": …}`.
"""

import json
import random
import sys
import time

import xgrammar

SIZE = int(sys.argv[1])
LETTERS = "eeeetttaaooiinnsshhrrddlluuccmmffwwyyggppbbvvkkxjqz"
JSON_PIECES = ['{"', '":', '": "', '",', '", "', '"}', "}}", "]}", '"]', "\\n", '\\"', "[]", "{}", "\n\n", "  ", ": "]


def vocabulary() -> list[bytes]:
    """Bytes, pieces of JSON, numbers, words with and without a space before them, and words of other scripts."""
    random.seed(1)
    found = {bytes([byte]): None for byte in range(256)}
    for piece in JSON_PIECES + [str(number) for number in range(1000)]:
        found[piece.encode()] = None
    while len(found) < SIZE - 1:
        length = min(14, 1 + int(random.expovariate(0.25)))
        if random.random() < 0.2:
            first = random.choice([0x00C0, 0x0400, 0x0600, 0x3040, 0x4E00, 0xAC00])
            word = "".join(chr(first + random.randrange(60)) for _ in range(min(length, 4)))
        else:
            word = "".join(random.choices(LETTERS, k=length))
        shape = random.random()
        word = f" {word}" if shape < 0.5 else word.capitalize() if shape < 0.6 else f"{word}_" if shape < 0.65 else word
        found[word.encode()] = None
    return [*found, b"<end>"]


def main() -> None:
    tokens = vocabulary()
    info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[len(tokens) - 1])
    compilers = {on: xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=on) for on in [False, True]}
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.process_time()
        try:
            compiled = compilers[asked["cached"]].compile_grammar(asked["grammar"])
        except Exception as error:
            print(json.dumps({"error": str(error)}), flush=True)
            continue
        ms = (time.process_time() - began) * 1000
        allowed = []
        for text in asked["texts"]:
            matcher = xgrammar.GrammarMatcher(compiled)
            allowed.append(matcher.accept_string(text) and matcher.is_completed())
        print(json.dumps({"ms": ms, "bytes": compiled.memory_size_bytes, "allowed": allowed}), flush=True)


main()
