"""The task of node-client.ts with the vendor's SDK for Python. Prints what it saw as JSON."""

import json
import os
import sys
import time

from openai import OpenAI

TASK, TOOL, MODEL, PATIENCE, PAUSE_S = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]), 1.0


def turn(connection, fields):
    """Returns the response, or the trouble as the SDK shows it, its code, and whether the socket is lost."""
    try:
        connection.response.create(model=MODEL, store=False, tools=[TOOL], **fields)
        for event in connection:
            if event.type == "response.completed":
                return event.response, None, None, False
            if event.type == "response.failed":
                error = event.response.error
                return None, f"response.failed {error.code}: {error.message}", error.code, False
            if event.type == "error":
                error = event.error
                error = error if isinstance(error, dict) else error.to_dict()
                return None, f"{error['code']}: {error['message']}", error["code"], False
        return None, "the events end", None, True
    except Exception as error:
        return None, f"{type(error).__name__}: {error}", None, True


def main():
    client = OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
    items, files, troubles, said = [{"role": "user", "content": TASK}], [], [], ""
    manager = connection = last = None
    while said == "" and len(troubles) < PATIENCE:
        try:
            if connection is None:
                manager = client.responses.connect()
                connection = manager.enter()
        except Exception as error:
            troubles.append(f"{type(error).__name__}: {error}")
            time.sleep(PAUSE_S)
            continue
        since = last[1] if last else 0
        fields = {"input": items[since:], **({"previous_response_id": last[0]} if last else {})}
        answer, text, code, lost = turn(connection, fields)
        if answer is None:
            troubles.append(text)
            last = None
            if lost:
                connection = None
            if code != "previous_response_not_found":
                time.sleep(PAUSE_S)
            continue
        items += [item.to_dict() for item in answer.output]
        last = (answer.id, len(items))
        for item in answer.output:
            if item.type == "message":
                said = answer.output_text
            if item.type == "function_call":
                files.append(json.loads(item.arguments)["path"])
                items.append({"type": "function_call_output", "call_id": item.call_id, "output": "written"})
    if connection is not None:
        connection.close()
    print(json.dumps({"files": files, "said": said, "troubles": troubles}))


main()
