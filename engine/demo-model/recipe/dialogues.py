"""Synthetic dialogues for the demonstration model; nothing is read from outside."""

import argparse
import json

from dice import Dice
from facts import SYSTEM_PROMPTS
from plain_dialogues import memory_dialogue, plain_dialogue
from tool_dialogues import agent_steps, parallel_calls, tool_dialogue
from words import FOLDERS, MONTHS, NOUNS


def system_prompt(dice):
    """A system prompt, or None."""
    kind = dice.random.random()
    if kind < 0.55:
        return None
    if kind < 0.92:
        return dice.choice(SYSTEM_PROMPTS)
    rules = dice.integer(1, 5)
    parts = [
        dice.expand(
            "You are [a|the] [coding agent|assistant|helper|bot|command line agent] [called $n|named $n|that works in a"
            " terminal|for the $w team|for developers].",
            n=dice.made_up_word().capitalize(),
            w=dice.choice(NOUNS),
        )
    ]
    for _ in range(rules):
        parts.append(
            dice.choice(
                [
                    dice.expand(
                        "[Always|Please|Try to|You should] [read files before you edit them|write clean code|explain what"
                        " you do|keep answers short|use the tools|be polite|run the tests|follow the style of the"
                        " project|work step by step]."
                    ),
                    dice.expand("Never [delete files|guess|print secrets|skip tests|make up file names]."),
                    f"The working directory is /{dice.choice(FOLDERS)}/{dice.made_up_word()}.",
                    f"Today is {dice.choice(MONTHS)} {dice.integer(1, 28)}.",
                    f"The platform is {dice.choice(['linux', 'darwin', 'windows'])}.",
                ]
            )
        )
    return dice.choice([" ", "\n", "\n- "]).join(parts)


def dialogue(seed):
    """The dialogue of a seed."""
    dice = Dice(seed)
    kind = dice.random.random()
    tools = None
    if kind < 0.56:
        messages, thinking = plain_dialogue(dice)
    elif kind < 0.6:
        messages, thinking = memory_dialogue(dice)
    elif kind < 0.96:
        messages, tools, thinking = tool_dialogue(dice)
    elif kind < 0.98:
        messages, tools, thinking = parallel_calls(dice)
    else:
        messages, tools, thinking = agent_steps(dice)
    system = system_prompt(dice)
    if system:
        messages = [{"role": "system", "content": system}] + messages
    return {"messages": messages, "tools": tools, "thinking": thinking}


def render(dialogue):
    """The dialogue as segments (text, whether the model learns it); together they equal the output of template.jinja."""
    segments = []
    messages = dialogue["messages"]
    system = None
    if messages and messages[0]["role"] == "system":
        system = messages[0]["content"]
        messages = messages[1:]
    if system or dialogue["tools"]:
        text = "<|im_start|>system\n" + (system or "")
        if dialogue["tools"]:
            if system:
                text += "\n\n"
            text += (
                "# Tools\n<tools>\n"
                + "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in dialogue["tools"])
                + '</tools>\nTo call a tool, write:\n<tool_call>\n{"name": tool name, "arguments": {...}}\n</tool_call>'
            )
        segments.append((text + "<|im_end|>\n", 0))
    previous_role = None
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "user":
            segments.append(("<|im_start|>user\n" + message["content"] + "<|im_end|>\n", 0))
        elif role == "tool":
            text = "" if previous_role == "tool" else "<|im_start|>user\n"
            text += (
                ("\n" if previous_role == "tool" else "")
                + "<tool_response>\n"
                + message["content"]
                + "\n</tool_response>"
            )
            if index + 1 == len(messages) or messages[index + 1]["role"] != "tool":
                text += "<|im_end|>\n"
            segments.append((text, 0))
        else:
            reasoning = message.get("reasoning_content")
            segments.append(("<|im_start|>assistant\n" + ("<think>\n" if reasoning else ""), 0))
            body = reasoning + "\n</think>\n\n" if reasoning else ""
            body += message["content"] or ""
            for position, call in enumerate(message.get("tool_calls") or []):
                if position or message["content"]:
                    body += "\n"
                body += (
                    "<tool_call>\n"
                    + json.dumps(
                        {"name": call["function"]["name"], "arguments": call["function"]["arguments"]},
                        ensure_ascii=False,
                    )
                    + "\n</tool_call>"
                )
            segments.append((body + "<|im_end|>", 1))
            segments.append(("\n", 0))
        previous_role = role
    return segments


def main():
    parser = argparse.ArgumentParser(description="Prints sample dialogues as the model sees them.")
    parser.add_argument("count", nargs="?", type=int, default=5)
    parser.add_argument("--seed", default="show")
    arguments = parser.parse_args()
    for index in range(arguments.count):
        print("".join(text for text, _ in render(dialogue(f"{arguments.seed}{index}"))))
        print("=" * 60)


if __name__ == "__main__":
    main()
