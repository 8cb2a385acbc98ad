"""Makes small tokenizers with the properties that published ones have, and tokenizes texts whole and by pieces.

usage: small-tokenizers.py make FOLDER      writes FOLDER/<property>/tokenizer.json for each
       small-tokenizers.py compare FILE     reads a JSON list of lists of pieces, and prints the numbers of those whose
                                            tokens are not those of their pieces, joined
"""

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]
NESTED = ["〈|EOS|〉", "〈|", "|〉"]
CORPUS = ["the user says something, and the model answers. ", "def main():\n    return 1.50\n", '{"path": "src/a.ts"}']


def made(pre_tokenizer, normalizer=None, marks=MARKS, **properties):
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS * 20, trainer)
    plain = {"normalized": False, "special": True}
    tokenizer.add_tokens([AddedToken(mark, **{**plain, **properties}) for mark in marks])
    return tokenizer


def variants():
    def byte_level(prefix=False):
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix)

    yield "plain", made(byte_level())
    yield "rstrip", made(byte_level(), rstrip=True)
    yield "lstrip", made(byte_level(), lstrip=True)
    yield "single_word", made(byte_level(), single_word=True)
    yield "normalized", made(byte_level(), normalizers.NFC(), normalized=True)
    yield "NFC", made(byte_level(), normalizers.NFC())
    yield "add_prefix_space", made(byte_level(prefix=True))
    for scheme in ("first", "always", "never"):
        yield f"Metaspace {scheme}", made(pre_tokenizers.Metaspace(prepend_scheme=scheme))
    yield "nested", made(byte_level(), marks=MARKS + NESTED)


def differing(tokenizer, prompts):
    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    for number, pieces in enumerate(prompts):
        if ids("".join(pieces)) != [token for piece in pieces for token in ids(piece)]:
            yield number


command, where = sys.argv[1:]
if command == "make":
    for name, tokenizer in variants():
        folder = Path(where) / name
        folder.mkdir(parents=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        print(name)
else:
    tokenizer = Tokenizer.from_file(where)
    print(json.dumps(list(differing(tokenizer, json.load(sys.stdin)))))
