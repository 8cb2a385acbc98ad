"""Trains the demonstration model on a CPU.

Saves and evaluates every 150 seconds. A file `next.npz` that appears in the working folder becomes the new data.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import gguf
from batches import batches
from export_gguf import named_tensors
from model import CONFIG, Model, start_with_copying
from muon import Muon
from token_file import load

EVALUATE_SECONDS = 150
# Pauses of the process do not use up its schedule.
LONGEST_STEP_SECONDS = 60.0
WARM_UP_STEPS = 40
LOWEST_RATE = 0.02


@torch.no_grad()
def evaluate(model, data, budget=16384, limit=12):
    """Loss and accuracy on the tokens of the assistant."""
    loss = 0.0
    right = 0
    count = 0
    for index, (inputs, wanted, counted, dialogues) in enumerate(batches(data, budget, np.random.default_rng(0))):
        if index >= limit:
            break
        logits = model.logits(model(inputs, dialogues)[counted])
        targets = wanted[counted]
        loss += F.cross_entropy(logits, targets, reduction="sum").item()
        right += (logits.argmax(-1) == targets).sum().item()
        count += len(targets)
    return loss / count, right / count


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float)
    parser.add_argument("out", help="the checkpoint")
    parser.add_argument("--init", help="a checkpoint or a GGUF file to go on from")
    parser.add_argument("--data", default="train.npz", help="files, separated by commas")
    parser.add_argument("--validation", default="val.npz")
    parser.add_argument("--vocabulary", default="../tok.json")
    parser.add_argument("--lr", type=float, default=1.0, help="factor on all learning rates")
    parser.add_argument("--decay", type=float, default=0.6, help="the last part of the time, in which the rate falls")
    parser.add_argument("--budget", type=int, default=8192, help="tokens of a batch")
    parser.add_argument("--steps", type=int, default=10**9, help="at most so many")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def state_from(path, parameters):
    """The weights of a checkpoint, or those of a GGUF file by the names of the parameters."""
    if not path.endswith(".gguf"):
        return torch.load(path)["model"]
    tensors = gguf.read_tensors(path)
    names = named_tensors({parameter: parameter for parameter in parameters}, CONFIG)
    return {parameter: torch.from_numpy(tensors[name]) for name, parameter in names.items()}


def new_model(arguments):
    with open(arguments.vocabulary) as file:
        vocabulary_size = len(json.load(file)["vocab"])
    model = Model(CONFIG, vocabulary_size)
    if arguments.init:
        model.load_state_dict(state_from(arguments.init, model.state_dict()))
    else:
        start_with_copying(model)
    return model


class Optimisers:
    """Muon for the matrices of the blocks, AdamW for embedding and norms."""

    def __init__(self, model):
        matrices = []
        rest = []
        for name, parameter in model.named_parameters():
            inside = name.startswith("bl.") and parameter.dim() == 2
            (matrices if inside else rest).append(parameter)
        self.rest = rest
        self.muon = Muon(matrices)
        norms = [parameter for parameter in rest if parameter is not model.emb]
        self.adam = torch.optim.AdamW(
            [{"params": [model.emb], "base": 2e-2}, {"params": norms, "base": 2e-3}],
            betas=(0.9, 0.97),
            weight_decay=0.0,
            foreach=True,
        )

    def step(self, factor):
        torch.nn.utils.clip_grad_norm_(self.rest, 1.0)
        for group in self.adam.param_groups:
            group["lr"] = group["base"] * factor
        self.muon.step(factor)
        self.adam.step()


class Training:
    def __init__(self, arguments):
        self.arguments = arguments
        self.model = new_model(arguments)
        self.optimisers = Optimisers(self.model)
        self.validation = load(arguments.validation)
        self.batches = batches(load(arguments.data), arguments.budget, np.random.default_rng(int(time.time())))
        self.log = open(arguments.out + ".log", "a")
        self.seconds = 0.0
        self.step = 0
        self.tokens = 0
        self.average = None

    def run(self):
        self.say(f"parameters {sum(parameter.numel() for parameter in self.model.parameters())}")
        last = evaluated = time.time()
        while True:
            now = time.time()
            self.seconds += min(now - last, LONGEST_STEP_SECONDS)
            last = now
            progress = self.seconds / (self.arguments.minutes * 60)
            if progress >= 1 or self.step >= self.arguments.steps:
                break
            self.train_step(progress)
            if time.time() - evaluated > EVALUATE_SECONDS:
                self.save(limit=12)
                self.take_new_data()
                evaluated = time.time()
        self.save(limit=8)

    def train_step(self, progress):
        warm_up = min(1, (self.step + 1) / WARM_UP_STEPS)
        factor = self.arguments.lr * warm_up * min(1, max(LOWEST_RATE, (1 - progress) / self.arguments.decay))
        inputs, wanted, counted, dialogues = next(self.batches)
        hidden = self.model(inputs, dialogues)
        loss = F.cross_entropy(self.model.logits(hidden[counted]), wanted[counted])
        self.model.zero_grad(set_to_none=True)
        loss.backward()
        self.optimisers.step(factor)
        self.step += 1
        self.tokens += inputs.numel()
        value = loss.item()
        self.average = value if self.average is None else 0.97 * self.average + 0.03 * value
        if self.step % 25 == 0:
            rate = self.tokens / self.seconds
            self.say(f"{self.position()} lr {factor:.3f} loss {self.average:.4f} tokens per second {rate:.0f}")

    def save(self, limit):
        loss, accuracy = evaluate(self.model, self.validation, limit=limit)
        self.say(f"{self.position()} validation loss {loss:.4f} accuracy {accuracy:.4f}")
        checkpoint = {"model": self.model.state_dict(), "cfg": CONFIG, "step": self.step, "val": (loss, accuracy)}
        torch.save(checkpoint, self.arguments.out + ".tmp")
        os.replace(self.arguments.out + ".tmp", self.arguments.out)

    def take_new_data(self):
        if not os.path.exists("next.npz"):
            return
        os.replace("next.npz", "current.npz")
        self.batches = batches(load("current.npz"), self.arguments.budget, np.random.default_rng(self.step))
        self.say("took new data")

    def position(self):
        return f"step {self.step} minute {self.seconds / 60:.1f} tokens {self.tokens / 1e6:.2f}M"

    def say(self, line):
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    Training(arguments).run()


if __name__ == "__main__":
    main()
