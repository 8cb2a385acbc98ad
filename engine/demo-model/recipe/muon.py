"""An optimiser for the matrices inside the blocks: momentum, made orthogonal before it is applied."""

import math

import torch

# Coefficients of the Newton-Schulz iteration that brings all singular values near one.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
UPDATE_SCALE = 0.2 * 0.35


def orthogonalised(matrix):
    """Approximately the nearest matrix whose singular values are all one."""
    result = matrix.to(torch.bfloat16)
    tall = result.shape[0] > result.shape[1]
    if tall:
        result = result.t()
    result = result / (result.norm() + 1e-7)
    first, second, third = NEWTON_SCHULZ
    for _ in range(ITERATIONS):
        square = result @ result.t()
        result = first * result + (second * square + third * (square @ square)) @ result
    if tall:
        result = result.t()
    return result.float()


class Muon:
    def __init__(self, parameters, learning_rate=0.02, momentum=0.95):
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.buffers = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self, factor, weight_decay=0.1):
        """One step; `factor` scales the learning rate."""
        rate = self.learning_rate * factor
        for parameter, buffer in zip(self.parameters, self.buffers):
            gradient = parameter.grad
            buffer.mul_(self.momentum).add_(gradient)
            update = orthogonalised(gradient + self.momentum * buffer)
            parameter.mul_(1 - rate * weight_decay)
            parameter.add_(update, alpha=-rate * UPDATE_SCALE * math.sqrt(max(parameter.shape)))
