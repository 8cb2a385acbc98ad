"""Packs dialogues for the later phases: more of the topics that the model is weak at."""

import argparse

from bpe import Tokenizer
from dialogues import dialogue, render
from dice import Dice
from facts import SYSTEM_PROMPTS
from general_knowledge import listing
from json_replies import json_reply
from messages import assistant, user
from small_talk import greeting, identity, service_question, unknown
from sums import arithmetic, counting, yes_or_no
from token_file import TokenFile
from topics import pick_topic
from writing import echoing, programming

WEAK = [
    (arithmetic, 16),
    (counting, 16),
    (listing, 10),
    (echoing, 12),
    (json_reply, 8),
    (service_question, 10),
    (identity, 6),
    (greeting, 6),
    (yes_or_no, 5),
    (unknown, 4),
    (programming, 7),
]


def weak_dialogue(dice, topics=WEAK):
    """One or two questions on some topics, sometimes after a system prompt."""
    thinking = dice.chance(0.12)
    messages = []
    for _ in range(dice.choice([1, 1, 1, 2])):
        question, answer, thought = pick_topic(dice, topics)(dice)
        messages += [user(question), assistant(answer, thought if thinking else None)]
    if dice.chance(0.2):
        messages = [{"role": "system", "content": dice.choice(SYSTEM_PROMPTS)}] + messages
    return {"messages": messages, "tools": None}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="also the seed: the same name gives the same dialogues")
    parser.add_argument("count", type=int)
    parser.add_argument("--vocabulary", default="../tok.json")
    arguments = parser.parse_args()
    file = TokenFile(Tokenizer(arguments.vocabulary))
    for index in range(arguments.count):
        dice = Dice(f"{arguments.out}{index}")
        ordinary = dice.chance(0.35)
        file.add_segments(render(dialogue(f"{arguments.out}d{index}") if ordinary else weak_dialogue(dice)))
    file.save(arguments.out)


if __name__ == "__main__":
    main()
