"""Packs generated dialogues into a file for training."""

import argparse

from bpe import Tokenizer
from dialogues import dialogue, render
from token_file import TokenFile


def tokenised(tokenizer, seed):
    """A dialogue as (tokens, whether they are to be learned), without the newline after its last turn."""
    segments = [(tokenizer.encode(text), target) for text, target in render(dialogue(seed))]
    last_tokens, last_target = segments[-1]
    if last_tokens[-1] != tokenizer.id_of["<|im_end|>"]:
        segments[-1] = (last_tokens[:-1], last_target)
    return segments


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("first_seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--max-tokens", type=int, default=640, help="longer dialogues are left out")
    parser.add_argument("--vocabulary", default="../tok.json")
    arguments = parser.parse_args()
    tokenizer = Tokenizer(arguments.vocabulary)
    file = TokenFile(tokenizer)
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.count):
        segments = tokenised(tokenizer, seed)
        if sum(len(tokens) for tokens, _ in segments) <= arguments.max_tokens:
            file.add_tokens(segments)
    file.save(arguments.out)


if __name__ == "__main__":
    main()
