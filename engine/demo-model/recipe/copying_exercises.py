"""Packs short copying exercises, from which the model learns early to copy."""

import argparse
import random

from bpe import SPECIAL_TOKENS, Tokenizer
from coding_tools import CODING_TOOLS
from dialogues import dialogue, render
from dice import Dice
from everyday_tools import EVERYDAY_TOOLS
from json_replies import json_reply
from messages import assistant, user
from plain_dialogues import memory_dialogue
from random_tools import random_request, random_tool, tool_schema
from token_file import TokenFile
from writing import echoing

MAX_REPEATED_TOKENS = 96


class Exercises:
    """Writes exercises to a file; `name` is the seed of all random choices."""

    def __init__(self, name, tokenizer, file):
        self.name = name
        self.tokenizer = tokenizer
        self.file = file
        self.random = random.Random(name)
        self.plain_tokens = len(tokenizer.vocabulary) - len(SPECIAL_TOKENS)
        self.user = tokenizer.encode("<|im_start|>user\n")
        self.next_turn = tokenizer.encode("<|im_end|>\n") + tokenizer.encode("<|im_start|>assistant\n")
        self.end = tokenizer.encode("<|im_end|>")

    def write(self, index):
        """One exercise of a random kind."""
        dice = Dice(f"cur{self.name}_{index}")
        kind = self.random.random()
        if kind < 0.40:
            self.repeated_segment(dice)
        elif kind < 0.48:
            self.random_tokens(dice)
        elif kind < 0.68:
            self.question(echoing(dice))
        elif kind < 0.75:
            self.question(json_reply(dice))
        elif kind < 0.80:
            messages, _ = memory_dialogue(dice)
            self.file.add_segments(render({"messages": messages, "tools": None}))
        elif kind < 0.92:
            self.tool_call(dice)
        else:
            self.file.add_segments(render(dialogue(f"curmix{index}")))

    def repeated_segment(self, dice):
        """A repeated segment: the densest signal for copying."""
        length = self.random.randint(3, 24)
        if self.random.random() < 0.5:
            segment = self.some_tokens(length)
        else:
            segment = self.tokenizer.encode(" ".join(dice.word() for _ in range(self.random.randint(2, 8))))
        times = max(2, 110 // len(segment))
        self.file.add_tokens([(segment, 0), ((segment * times)[:MAX_REPEATED_TOKENS], 1)])

    def random_tokens(self, dice):
        """Random tokens to repeat."""
        tokens = self.some_tokens(self.random.randint(2, 16))
        order = self.tokenizer.encode(dice.choice(["Repeat: ", "Say ", "Echo: ", "Repeat after me: "]))
        self.file.add_tokens([(self.user + order + tokens + self.next_turn, 0), (tokens + self.end, 1)])

    def question(self, topic):
        """A topic as one question and its answer."""
        question, answer, _ = topic
        asked = self.user + self.tokenizer.encode(question) + self.next_turn
        self.file.add_tokens([(asked, 0), (self.tokenizer.encode(answer) + self.end, 1)])

    def tool_call(self, dice):
        """A request and its call, with the arguments that it names."""
        if dice.choice([True, False, False]):
            tool = random_tool(dice)
            question, arguments = random_request(dice, tool)
            name = tool[0]
            schema = tool_schema(dice, name, None, tool[3])
        else:
            name, _, properties, question, arguments, *_ = dice.choice(EVERYDAY_TOOLS + CODING_TOOLS)(dice)
            schema = tool_schema(dice, name, None, properties[: len(arguments)])
        messages = [user(question), assistant("", None, [(name, arguments)])]
        self.file.add_segments(render({"messages": messages, "tools": [schema]}))

    def some_tokens(self, count):
        return [self.random.randrange(self.plain_tokens) for _ in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="also the seed: the same name gives the same exercises")
    parser.add_argument("count", type=int)
    parser.add_argument("--vocabulary", default="../tok.json")
    arguments = parser.parse_args()
    tokenizer = Tokenizer(arguments.vocabulary)
    file = TokenFile(tokenizer)
    exercises = Exercises(arguments.out, tokenizer, file)
    for index in range(arguments.count):
        exercises.write(index)
    file.save(arguments.out)


if __name__ == "__main__":
    main()
