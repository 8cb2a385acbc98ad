"""Answers questions with a checkpoint in PyTorch, to compare with llama.cpp's answers."""

import argparse

import torch

from bpe import Tokenizer
from model import Model


@torch.no_grad()
def answer(model, tokenizer, question, most):
    prompt = tokenizer.encode(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
    end = tokenizer.id_of["<|im_end|>"]
    tokens = []
    while len(tokens) < most:
        hidden = model(torch.tensor([prompt + tokens]))
        token = model.logits(hidden[0, -1:]).argmax(-1).item()
        if token == end:
            break
        tokens.append(token)
    return tokenizer.decode(tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--max-tokens", type=int, default=40)
    parser.add_argument("--vocabulary", default="../tok.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer(arguments.vocabulary)
    checkpoint = torch.load(arguments.checkpoint, map_location="cpu")
    model = Model(checkpoint["cfg"], len(tokenizer.vocabulary))
    model.load_state_dict(checkpoint["model"])
    for question in arguments.questions:
        print(f"{question} => {answer(model, tokenizer, question, arguments.max_tokens)!r}")


if __name__ == "__main__":
    main()
