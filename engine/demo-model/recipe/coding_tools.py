"""Tools of coding agents under many names.

Each returns the values of an everyday tool, then the names of the required properties."""

import json

from facts import CODE_SAMPLES
from phrases import camel, phrase
from words import COMMANDS, EXTENSIONS, FILE_STEMS, FOLDERS, NOUNS, VERBS


def snippet(dice):
    """The content of a small file."""
    kind = dice.integer(0, 5)
    if kind == 0:
        return dice.choice(
            [
                f"hello {dice.word()}",
                f"# {dice.made_up_word().capitalize()}",
                " ".join(dice.word() for _ in range(dice.integer(2, 6))),
            ]
        )
    if kind == 1:
        return f"{dice.choice(FILE_STEMS)} = {dice.integer(0, 999)}"
    if kind == 2:
        key, _purpose, python, _javascript, _typescript = dice.choice(CODE_SAMPLES[:3] + CODE_SAMPLES[17:18])
        return python.replace("NAME", dice.choice([key, dice.made_up_word()]))
    if kind == 3:
        return json.dumps(
            {"name": dice.made_up_word(), "version": f"{dice.integer(0, 9)}.{dice.integer(0, 9)}.{dice.integer(0, 9)}"}
        )
    if kind == 4:
        return f'print("{dice.word()} {dice.word()}")'
    return f"{dice.word()}: {dice.word()}\n{dice.word()}: {dice.integer(0, 99)}"


def path_argument(dice):
    """The name of an argument that is a path."""
    return dice.choice(["path", "path", "path", "file_path", "filePath", "filename", "file"])


def read_file_tool(dice):
    """Asks for a file."""
    path = dice.path()
    argument = path_argument(dice)
    content = snippet(dice)
    properties = [(argument, "string", "Path of the file")]
    if dice.chance(0.2):
        properties += [("offset", "integer", ""), ("limit", "integer", "")]
    return (
        dice.choice(
            ["read_file", "read_file", "read_file", "read", "Read", "readFile", "view_file", "open_file", "cat"]
        ),
        "Read a file",
        properties,
        dice.expand(
            "[Read $p|Read the file $p.|Show me $p|What is in $p?|Open $p|What does $p contain?|Show the content of"
            " $p.|Look at $p|Please read $p.|Print $p|Can you read $p?|cat $p]",
            p=path,
        ),
        {argument: path},
        content,
        dice.choice([f"The file {path} contains:\n```\n{content}\n```"]),
        [argument],
    )


def list_files_tool(dice):
    """Asks for a list of files."""
    folder = dice.choice(
        [
            ".",
            dice.choice(FOLDERS),
            dice.choice(FOLDERS) + "/" + dice.choice(FOLDERS),
            "/" + dice.choice(FOLDERS),
            dice.made_up_word(),
            dice.choice(FOLDERS) + "/",
        ]
    )
    argument = dice.choice(["dir", "dir", "path", "directory", "folder"])
    files = [
        (dice.choice(FILE_STEMS) if dice.chance(0.7) else dice.made_up_word()) + "." + dice.choice(EXTENSIONS)
        for _ in range(dice.integer(1, 5))
    ]
    question = dice.expand(
        "[List the files in $d|What files are in $d?|ls $d|Show me the files in $d|List $d|Which files are in"
        " $d?|Please list the files in the folder $d]",
        d=folder,
    )
    if folder == ".":
        question = dice.expand(
            "[List the files.|List all files|What files are here?|ls|Show me the files in this project.|Which files are"
            " in the current directory?|List files in the current folder|What files are there in the project?]"
        )
    return (
        dice.choice(["list_files", "list_files", "list_files", "ls", "LS", "listFiles", "list_dir", "list_directory"]),
        "List the files in a directory",
        [(argument, "string", "")],
        question,
        {argument: folder},
        dice.choice(["\n".join(files), json.dumps(files), {"files": files}]),
        (
            f"There {('are' if len(files) > 1 else 'is')} {len(files)} file{('s' if len(files) > 1 else '')}:"
            f" {', '.join(files)}."
        ),
        [argument],
    )


def run_command_tool(dice):
    """Asks for a command to be run."""
    command = (
        dice.choice(COMMANDS)
        if dice.chance(0.5)
        else dice.choice(
            [
                f"echo {dice.word()}",
                f"python3 {dice.path()}",
                f"node {dice.path()}",
                f"git checkout {dice.made_up_word()}",
                f"npm run {dice.word()}",
                f"cat {dice.path()}",
                f"rm {dice.path()}",
                f"mkdir {dice.made_up_word()}",
                f"{dice.made_up_word()} --{dice.word()}",
            ]
        )
    )
    argument = dice.choice(["command", "command", "command", "cmd"])
    properties = [(argument, "string", "The command to run")]
    if dice.chance(0.15):
        properties.append(("timeout", "integer", ""))
    if dice.chance(0.1):
        properties.append(("description", "string", ""))
    output = dice.choice(
        [
            phrase(dice, dice.integer(1, 5)),
            f"{dice.integer(1, 99)} tests passed",
            f"{dice.integer(1, 9)} failed, {dice.integer(1, 99)} passed",
            "On branch " + dice.made_up_word(),
            f"v{dice.integer(1, 30)}.{dice.integer(0, 20)}.{dice.integer(0, 9)}",
        ]
    )
    question = dice.expand(
        "[Run $c|Execute $c|Run the command $c|Please run $c|Can you run $c?|Run `$c`|Execute `$c`.|run: $c|Use the"
        " shell to run $c]",
        c=command,
    )
    if command in ("npm test", "pytest", "make test", "npx vitest run", "cargo test") and dice.chance(0.3):
        command = "npm test"
        question = dice.expand("[Run the tests.|Run all tests|Please run the test suite.|Test the project]")
    return (
        dice.choice(
            [
                "run_command",
                "run_command",
                "run_command",
                "bash",
                "Bash",
                "shell",
                "runCommand",
                "exec",
                "execute_command",
                "terminal",
            ]
        ),
        "Run a shell command",
        properties,
        question,
        {argument: command},
        output,
        f"The command printed: {output}",
        [argument],
    )


def search_files_tool(dice):
    """Asks for a search in the code."""
    pattern = dice.choice(
        [
            dice.word(),
            "TODO",
            "FIXME",
            f"def {dice.made_up_word()}",
            f"class {dice.made_up_word().capitalize()}",
            f"function {dice.made_up_word()}",
            dice.made_up_word(),
            camel(dice.choice(VERBS) + "_" + dice.choice(NOUNS)),
            f"import {dice.word()}",
        ]
    )
    argument = dice.choice(["pattern", "pattern", "query", "regex", "text"])
    path = dice.path()
    line = dice.integer(1, 300)
    question = dice.expand(
        "[Search for $q in the code|Find $q|Search for $q|grep $q|Where is $q used?|Find all uses of $q|Search the"
        " project for $q|Look for $q in the files|Where do we use $q?]",
        q=pattern,
    )
    return (
        dice.choice(
            ["search", "search", "search", "grep", "Grep", "search_files", "find_text", "searchCode", "ripgrep"]
        ),
        "Search the files for a pattern",
        [(argument, "string", "")],
        question,
        {argument: pattern},
        dice.choice([f"{path}:{line}: {pattern}", {"matches": [f"{path}:{line}"]}]),
        f"I found {pattern} in {path} on line {line}.",
        [argument],
    )


def write_file_tool(dice):
    """Asks for a file to be written."""
    path = dice.path()
    content = dice.choice(
        [
            " ".join(dice.word() for _ in range(dice.integer(1, 5))),
            f'print("{dice.word()}")',
            f"{dice.word()} = {dice.integer(0, 99)}",
            "hello world",
        ]
    )
    path_key = path_argument(dice)
    content_key = dice.choice(["content", "content", "text", "contents"])
    return (
        dice.choice(["write_file", "write_file", "write", "Write", "writeFile", "create_file", "save_file"]),
        "Write text to a file",
        [(path_key, "string", ""), (content_key, "string", "")],
        dice.expand(
            "[Write $s to $p|Create a file $p with the content $s|Save $s in $p|Create $p containing $s|Make a file"
            " called $p with $s|Write the text $s to the file $p]",
            p=path,
            s=content,
        ),
        {path_key: path, content_key: content},
        dice.choice(["ok", {"status": "ok"}, f"wrote {len(content)} bytes", "File written."]),
        f"I wrote the file {path}.",
        None,
    )


def edit_file_tool(dice):
    """Asks for a replacement in a file."""
    path = dice.path()
    old = dice.word()
    new = dice.word()
    path_key = path_argument(dice)
    old_key, new_key = dice.choice(
        [
            ("old", "new"),
            ("old_string", "new_string"),
            ("oldString", "newString"),
            ("find", "replace"),
            ("search", "replacement"),
        ]
    )
    return (
        dice.choice(["edit_file", "edit", "Edit", "replace_text", "editFile", "str_replace"]),
        "Replace text in a file",
        [(path_key, "string", ""), (old_key, "string", ""), (new_key, "string", "")],
        dice.expand(
            "[In $p replace $a with $b.|Replace $a with $b in $p|Change $a to $b in $p|Edit $p: replace $a by $b]",
            p=path,
            a=old,
            b=new,
        ),
        {path_key: path, old_key: old, new_key: new},
        dice.choice(["ok", "1 replacement", {"status": "ok"}]),
        f"I replaced {old} with {new} in {path}.",
        None,
    )


CODING_TOOLS = [
    read_file_tool,
    read_file_tool,
    list_files_tool,
    run_command_tool,
    search_files_tool,
    write_file_tool,
    edit_file_tool,
]
