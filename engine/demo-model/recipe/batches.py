"""Batches of rows that hold several dialogues each."""

import numpy as np
import torch

ROW_TOKENS = 448
# Slightly more than fits is collected, so that rows fill up well.
COLLECTED = 1.02


def batches(data, budget, random):
    """Endless batches of about `budget` tokens: inputs, targets, their mask, and the dialogue of each token."""
    tokens, targets, starts = data
    lengths = np.diff(starts)
    rows = max(1, budget // ROW_TOKENS)
    waiting = []
    while True:
        for dialogue in random.permutation(len(lengths)):
            if lengths[dialogue] > ROW_TOKENS:
                continue
            waiting.append(dialogue)
            if sum(lengths[one] for one in waiting) < rows * ROW_TOKENS * COLLECTED:
                continue
            placed, waiting = place(waiting, lengths, rows)
            yield fill(placed, tokens, targets, starts, lengths)


def place(dialogues, lengths, rows):
    """The dialogues of each row, the longest placed first in the emptiest row, and those that did not fit."""
    free = [ROW_TOKENS] * rows
    placed = [[] for _ in range(rows)]
    left = []
    for dialogue in sorted(dialogues, key=lambda one: -lengths[one]):
        length = lengths[dialogue]
        row = max(range(rows), key=lambda one: free[one] if free[one] >= length else -1)
        if free[row] >= length:
            placed[row].append(dialogue)
            free[row] -= length
        else:
            left.append(dialogue)
    return placed, left


def fill(placed, tokens, targets, starts, lengths):
    """The tensors of a batch."""
    shape = (len(placed), ROW_TOKENS)
    inputs = np.zeros(shape, np.int64)
    wanted = np.zeros(shape, np.int64)
    counted = np.zeros(shape, bool)
    numbers = np.full(shape, -1, np.int64)
    for row, dialogues in enumerate(placed):
        position = 0
        for number, dialogue in enumerate(dialogues):
            start = starts[dialogue]
            length = lengths[dialogue]
            end = position + length
            inputs[row, position:end] = tokens[start : start + length]
            wanted[row, position : end - 1] = tokens[start + 1 : start + length]
            counted[row, position : end - 1] = targets[start + 1 : start + length]
            numbers[row, position:end] = number
            position = end
    return tuple(torch.from_numpy(array) for array in (inputs, wanted, counted, numbers))
