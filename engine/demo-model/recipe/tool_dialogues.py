"""Dialogues with tools. Each returns (messages, tools, whether the model thinks)."""

from coding_tools import (
    CODING_TOOLS,
    edit_file_tool,
    list_files_tool,
    read_file_tool,
    run_command_tool,
    search_files_tool,
    snippet,
    write_file_tool,
)
from everyday_tools import EVERYDAY_TOOLS, time_tool, weather_tool
from general_knowledge import definition
from messages import assistant, tool_result, user
from phrases import spoken_value
from random_tools import random_request, random_result, random_tool, tool_schema
from small_talk import greeting, identity, service_question, unknown
from sums import arithmetic
from words import CITIES, EXTENSIONS, FILE_STEMS
from writing import echoing


def tool_dialogue(dice):
    """A request, the call, its result and the answer, among unrelated tools; sometimes no tool is needed."""
    thinking = dice.chance(0.2)
    kind = dice.random.random()

    def when_thinking(thought):
        return thought if thinking else None

    tools = []
    messages = []
    used = set()

    def add_tool(example):
        name_of_example = example["function"]["name"]
        if name_of_example in used:
            return False
        used.add(name_of_example)
        tools.append(example)
        return True

    def ask_for_tool():
        # Drawn but unused, so that each seed keeps its dialogue.
        dice.random.random()
        if kind < 0.42:
            tool = random_tool(dice)
            if not add_tool(tool_schema(dice, tool[0], tool[4], tool[3])):
                return None
            question, arguments = random_request(dice, tool)
            result, answer = random_result(dice, tool, arguments)
            return tool[0], question, arguments, result, answer
        example = dice.choice(EVERYDAY_TOOLS if kind < 0.65 else CODING_TOOLS)(dice)
        name, description, properties, question, arguments, result, answer = example[:7]
        required = example[7] if len(example) > 7 else None
        if not add_tool(tool_schema(dice, name, description, properties, required)):
            return None
        return name, question, arguments, result, answer

    name, question, arguments, result, answer = ask_for_tool()
    distractors = dice.choice([0, 0, 0, 1, 1, 2]) if kind < 0.65 else dice.choice([0, 0, 1, 2, 3])
    for _ in range(distractors):
        if kind >= 0.65 and dice.chance(0.8):
            example = dice.choice(CODING_TOOLS)(dice)
        elif dice.chance(0.5):
            example = dice.choice(EVERYDAY_TOOLS)(dice)
        else:
            random_one = random_tool(dice)
            add_tool(tool_schema(dice, random_one[0], random_one[4], random_one[3]))
            continue
        if example[1] == (tools[0]["function"].get("description") or example[1]):
            continue
        add_tool(tool_schema(dice, example[0], example[1], example[2], example[7] if len(example) > 7 else None))
    dice.random.shuffle(tools)
    if dice.chance(0.1):
        topic = dice.choice([greeting, identity, arithmetic, definition, echoing, service_question, greeting, unknown])
        other_question, other_answer, other_thought = topic(dice)
        messages = [user(other_question), assistant(other_answer, when_thinking(other_thought))]
        if dice.chance(0.6):
            return messages, tools, thinking
    # Drawn but unused, so that each seed keeps its dialogue.
    dice.random.random()
    reason = dice.expand("[The user wants to use $n.|The tool $n fits.|I should call $n.] ", n=name) + (
        "I pass " + ", ".join(f"{key} = {spoken_value(value)}" for key, value in arguments.items()) + "."
        if arguments
        else "It needs no arguments."
    )
    messages += [user(question), assistant("", when_thinking(reason), [(name, arguments)])]
    if dice.chance(0.62):
        messages += [
            tool_result(result),
            assistant(
                answer,
                when_thinking(
                    dice.expand("[The tool answered.|I have the tool result.] [I tell the user.|I can answer now.]")
                ),
            ),
        ]
        if dice.chance(0.18):
            topic = dice.choice([greeting, echoing, arithmetic, identity])
            other_question, other_answer, other_thought = topic(dice)
            messages += [user(other_question), assistant(other_answer, when_thinking(other_thought))]
    return messages, tools, thinking


def parallel_calls(dice):
    """Two calls in one turn."""
    thinking = dice.chance(0.15)

    def when_thinking(thought):
        return thought if thinking else None

    kind = dice.choice([weather_tool, time_tool, read_file_tool])
    example = kind(dice)
    name = example[0]
    description = example[1]
    properties = example[2][:1]
    argument = properties[0][0]
    values = []
    for _ in range(2):
        values.append(
            dice.path()
            if kind is read_file_tool
            else dice.choice(CITIES) if dice.chance(0.7) else dice.made_up_word().capitalize()
        )
    if values[0] == values[1]:
        return tool_dialogue(dice)
    first, second = values
    question = dice.expand(
        (
            "[Read $x and $y.|Show me $x and $y|Please read the files $x and $y.]"
            if kind is read_file_tool
            else (
                "[What is the weather in $x and $y?|Weather in $x and in $y?|Compare the weather in $x and $y.]"
                if kind is weather_tool
                else "[What time is it in $x and $y?|Tell me the time in $x and in $y.]"
            )
        ),
        x=first,
        y=second,
    )
    tools = [tool_schema(dice, name, description, properties)]
    messages = [
        user(question),
        assistant(
            "",
            when_thinking(f"I call {name} twice, for {first} and {second}."),
            [(name, {argument: first}), (name, {argument: second})],
        ),
    ]
    if dice.chance(0.6):
        if kind is read_file_tool:
            results = [" ".join(dice.word() for _ in range(2)) for _ in values]
            answer = f"{first} contains: {results[0]}\n{second} contains: {results[1]}"
        elif kind is weather_tool:
            facts = [(dice.integer(-5, 35), dice.choice(["sunny", "cloudy", "rainy", "windy"])) for _ in values]
            results = [{"temperature": example, "condition": sky} for example, sky in facts]
            answer = (
                f"It is {facts[0][0]} degrees and {facts[0][1]} in {first}, and {facts[1][0]} degrees and {facts[1][1]}"
                f" in {second}."
            )
        else:
            facts = [f"{dice.integer(0, 23):02d}:{dice.integer(0, 59):02d}" for _ in values]
            results = [{"time": example} for example in facts]
            answer = f"It is {facts[0]} in {first} and {facts[1]} in {second}."
        messages += [
            tool_result(results[0]),
            tool_result(results[1]),
            assistant(answer, when_thinking("I have both results.")),
        ]
    return messages, tools, thinking


def agent_steps(dice):
    """Two steps in one turn: list, then read."""
    thinking = dice.chance(0.2)

    def when_thinking(content):
        return content if thinking else None

    files = list(
        {
            (dice.choice(FILE_STEMS) if dice.chance(0.6) else dice.made_up_word()) + "." + dice.choice(EXTENSIONS)
            for _ in range(dice.integer(2, 4))
        }
    )
    file = dice.choice(files)
    content = snippet(dice)
    lister = list_files_tool(dice)
    reader = read_file_tool(dice)
    tools = [
        tool_schema(dice, lister[0], lister[1], lister[2], lister[7]),
        tool_schema(dice, reader[0], reader[1], reader[2][:1], reader[7]),
    ]
    for _ in range(dice.choice([0, 1, 2])):
        other = dice.choice([run_command_tool, search_files_tool, write_file_tool, edit_file_tool])(dice)
        if other[0] not in [known["function"]["name"] for known in tools]:
            tools.append(tool_schema(dice, other[0], other[1], other[2], other[7] if len(other) > 7 else None))
    dice.random.shuffle(tools)
    question = dice.expand(
        "[List the files, then read $f.|Look at the files and show me $f.|First list the files and then open $f.]",
        f=file,
    )
    return (
        [
            user(question),
            assistant("", when_thinking(f"First I call {lister[0]}."), [(lister[0], {lister[2][0][0]: "."})]),
            tool_result("\n".join(files)),
            assistant(
                "", when_thinking(f"Now I read {file} with {reader[0]}."), [(reader[0], {reader[2][0][0]: file})]
            ),
            tool_result(content),
            assistant(
                f"The file {file} contains:\n```\n{content}\n```", when_thinking("I have the content. I show it.")
            ),
        ],
        tools,
        thinking,
    )
