"""The network: a Llama-style decoder, small enough to train on a CPU. Matrix products run in bfloat16."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "dim": 256,
    "layers": 6,
    "heads": 4,
    "kv": 2,
    "hd": 64,
    "ffn": 704,
    "base": 10000.0,
    "eps": 1e-5,
}
COMPUTE = torch.bfloat16
MASKED = -1e4
EMBEDDING_SCALE = 0.6


def linear(inputs, weight):
    return F.linear(inputs.to(COMPUTE), weight.to(COMPUTE))


def rms_norm(inputs, gain, epsilon):
    return inputs * torch.rsqrt(inputs.pow(2).mean(-1, keepdim=True) + epsilon) * gain


def rotate(inputs, cosine, sine):
    """Rotary positions on interleaved pairs, which llama.cpp calls the "norm" kind."""
    even = inputs[..., 0::2]
    odd = inputs[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


def random_weight(rows, columns, scale=1.0):
    return nn.Parameter(torch.randn(rows, columns) * (scale / math.sqrt(columns)))


class Block(nn.Module):
    """One layer. The names of its parameters are those of checkpoints: attention norm, feed-forward norm, q k v o, gate up down."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        width = config["dim"]
        queries = config["heads"] * config["hd"]
        keys = config["kv"] * config["hd"]
        self.an = nn.Parameter(torch.ones(width))
        self.fn = nn.Parameter(torch.ones(width))
        # Contributions to the residual stream begin near zero: larger ones would mask the embedding.
        self.q = random_weight(queries, width)
        self.k = random_weight(keys, width)
        self.v = random_weight(keys, width)
        self.o = random_weight(width, queries, 0.05)
        self.g = random_weight(config["ffn"], width)
        self.u = random_weight(config["ffn"], width)
        self.d = random_weight(width, config["ffn"], 0.05)

    def forward(self, stream, cosine, sine, bias):
        stream = stream + self.attend(stream, cosine, sine, bias).to(stream.dtype)
        return stream + self.feed_forward(stream).to(stream.dtype)

    def attend(self, stream, cosine, sine, bias):
        config = self.config
        batch, length, _ = stream.shape
        heads, groups, size = config["heads"], config["kv"], config["hd"]
        normed = rms_norm(stream, self.an, config["eps"])
        projected = linear(normed, torch.cat([self.q, self.k, self.v]))
        rotated, values = projected.split([(heads + groups) * size, groups * size], -1)
        rotated = rotate(rotated.view(batch, length, heads + groups, size), cosine, sine).transpose(1, 2)
        queries = rotated[:, :heads] * (size**-0.5)
        keys = rotated[:, heads:]
        values = values.view(batch, length, groups, size).transpose(1, 2)
        queries = queries.reshape(batch, groups, heads // groups * length, size)
        scores = torch.matmul(queries, keys.transpose(-1, -2)).view(batch, heads, length, length)
        attention = torch.softmax(scores + bias, -1).view(batch, groups, heads // groups * length, length)
        mixed = torch.matmul(attention, values).view(batch, heads, length, size)
        return linear(mixed.transpose(1, 2).reshape(batch, length, heads * size), self.o)

    def feed_forward(self, stream):
        normed = rms_norm(stream, self.fn, self.config["eps"])
        gate, up = linear(normed, torch.cat([self.g, self.u])).chunk(2, -1)
        return linear(F.silu(gate) * up, self.d)


class Model(nn.Module):
    def __init__(self, config, vocabulary_size):
        super().__init__()
        self.c = config
        self.emb = nn.Parameter(torch.randn(vocabulary_size, config["dim"]) * EMBEDDING_SCALE)
        self.bl = nn.ModuleList(Block(config) for _ in range(config["layers"]))
        self.n = nn.Parameter(torch.full((config["dim"],), 0.08))
        self.tables_by_length = {}

    def tables(self, length):
        """Cosines, sines and the causal mask for rows of a length."""
        known = self.tables_by_length.get(length)
        if known is None:
            config = self.c
            frequencies = config["base"] ** (-torch.arange(0, config["hd"], 2).float() / config["hd"])
            angles = torch.outer(torch.arange(length).float(), frequencies)[None, :, None]
            causal = torch.full((length, length), MASKED).triu(1)
            known = (angles.cos().to(COMPUTE), angles.sin().to(COMPUTE), causal.to(COMPUTE))
            self.tables_by_length[length] = known
        return known

    def forward(self, tokens, dialogues=None):
        """The last hidden states; `dialogues` numbers the dialogue of each token, and attention stays within one."""
        stream = self.emb[tokens]
        cosine, sine, bias = self.tables(tokens.shape[1])
        if dialogues is not None:
            foreign = (dialogues[:, :, None] != dialogues[:, None, :]).to(COMPUTE)[:, None]
            bias = bias + foreign * MASKED
        for block in self.bl:
            stream = block(stream, cosine, sine, bias)
        return rms_norm(stream, self.n, self.c["eps"])

    def logits(self, hidden):
        return linear(hidden, self.emb).float()


@torch.no_grad()
def start_with_copying(model, previous=7.0, match=2.6, write=1.0, copy=6.0):
    """Gives an untrained model a working copying circuit.

    The embedding gets one direction that all tokens share. Head 0 of layer 0 attends to the previous token and
    writes it into a reserved subspace; head 0 of layer 1 finds the earlier position whose previous token equals the
    current one, and copies the token there.
    """
    config = model.c
    width, size = config["dim"], config["hd"]
    basis = torch.linalg.qr(torch.randn(width, width))[0]
    common = basis[:, 0]
    memory = basis[:, 1 : 1 + size]
    probe = basis[:, 1 + size : 1 + 2 * size]

    reserved = basis[:, : 1 + size]
    embedding = torch.randn_like(model.emb) * EMBEDDING_SCALE
    embedding -= embedding @ reserved @ reserved.t()
    model.emb.copy_(embedding + common * (EMBEDDING_SCALE * width**0.5))

    frequencies = config["base"] ** (-torch.arange(0, size, 2).float() / size)
    # Fast frequencies distinguish neighbours; the slow rest is free to compare tokens.
    fast = 12
    scale = 0.85 / (EMBEDDING_SCALE * width**0.5)
    query = torch.zeros(size)
    key = torch.zeros(size)
    key[0 : 2 * fast : 2] = previous
    query[0 : 2 * fast : 2] = previous * frequencies[:fast].cos()
    query[1 : 2 * fast : 2] = -previous * frequencies[:fast].sin()
    first, second = model.bl[0], model.bl[1]
    first.q[:size] = torch.outer(query, common) * scale
    first.k[:size] = torch.outer(key, common) * scale
    first.v[:size] = probe.t()
    first.o[:, :size] = memory * write

    compared = size - 2 * fast
    second.q[:size] = 0
    second.k[:size] = 0
    second.q[2 * fast : size] = probe.t()[:compared] * match
    second.k[2 * fast : size] = memory.t()[:compared] * match
    second.v[:size] = probe.t()
    second.o[:, :size] = probe * copy
