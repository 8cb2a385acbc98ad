"""Turns a checkpoint into a GGUF file, or makes tiny ones with random weights for tests."""

import argparse
import json

import numpy as np

import gguf
import recurrent
from bpe import CONTROL_TOKENS, MARKER_TOKENS

TRAINED_CONTEXT = 4096
FILE_TYPES = {"q8_0": 7, "f16": 1, "f32": 0}
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4

# Names of a layer's parameters in a checkpoint, and in a GGUF file.
LAYER_NAMES = {
    "an": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "fn": "ffn_norm",
    "g": "ffn_gate",
    "u": "ffn_up",
    "d": "ffn_down",
}

TINY = {"dim": 64, "layers": 2, "heads": 2, "kv": 1, "hd": 32, "ffn": 128, "base": 10000.0, "eps": 1e-5}


def named_tensors(state, config):
    tensors = {"token_embd.weight": state["emb"]}
    for layer in range(config["layers"]):
        for short, name in LAYER_NAMES.items():
            tensors[f"blk.{layer}.{name}.weight"] = state[f"bl.{layer}.{short}"]
    tensors["output_norm.weight"] = state["n"]
    return tensors


def tokenizer_metadata(vocabulary, merges, template):
    normal = len(vocabulary) - len(CONTROL_TOKENS) - len(MARKER_TOKENS)
    types = [NORMAL] * normal + [CONTROL] * len(CONTROL_TOKENS) + [USER_DEFINED] * len(MARKER_TOKENS)
    end_of_text = vocabulary.index("<|endoftext|>")
    end_of_turn = vocabulary.index("<|im_end|>")
    return {
        "tokenizer.ggml.model": gguf.text("gpt2"),
        "tokenizer.ggml.pre": gguf.text("qwen2"),
        "tokenizer.ggml.tokens": gguf.texts(vocabulary),
        "tokenizer.ggml.token_type": gguf.int32s(types),
        "tokenizer.ggml.merges": gguf.texts([f"{left} {right}" for left, right in merges]),
        "tokenizer.ggml.bos_token_id": gguf.uint32(end_of_text),
        "tokenizer.ggml.eos_token_id": gguf.uint32(end_of_turn),
        "tokenizer.ggml.padding_token_id": gguf.uint32(end_of_text),
        "tokenizer.ggml.add_bos_token": gguf.boolean(False),
        "tokenizer.ggml.add_eos_token": gguf.boolean(False),
        "tokenizer.chat_template": gguf.text(template),
    }


def model_metadata(config, vocabulary_size, parameters, name, kind):
    description = "Small demonstration model trained from scratch on synthetic dialogues"
    return {
        "general.architecture": gguf.text("llama"),
        "general.type": gguf.text("model"),
        "general.name": gguf.text(name),
        "general.size_label": gguf.text(f"{parameters / 1e6:.1f}M"),
        "general.description": gguf.text(description),
        "general.file_type": gguf.uint32(FILE_TYPES[kind]),
        "general.quantization_version": gguf.uint32(2),
        "llama.block_count": gguf.uint32(config["layers"]),
        "llama.context_length": gguf.uint32(config.get("ctx", TRAINED_CONTEXT)),
        "llama.embedding_length": gguf.uint32(config["dim"]),
        "llama.feed_forward_length": gguf.uint32(config["ffn"]),
        "llama.attention.head_count": gguf.uint32(config["heads"]),
        "llama.attention.head_count_kv": gguf.uint32(config["kv"]),
        "llama.attention.layer_norm_rms_epsilon": gguf.float32(config["eps"]),
        "llama.attention.key_length": gguf.uint32(config["hd"]),
        "llama.attention.value_length": gguf.uint32(config["hd"]),
        "llama.rope.dimension_count": gguf.uint32(config["hd"]),
        "llama.rope.freq_base": gguf.float32(config["base"]),
        "llama.vocab_size": gguf.uint32(vocabulary_size),
    }


def random_state(vocabulary_size):
    """Weights of a tiny model that writes nonsense, always the same."""
    random = np.random.default_rng(0)

    def normal(*shape):
        return (random.standard_normal(shape) * 0.08).astype(np.float32)

    width, keys, inner = TINY["dim"], TINY["kv"] * TINY["hd"], TINY["ffn"]
    ones = np.ones(width, np.float32)
    state = {"emb": normal(vocabulary_size, width), "n": ones}
    for layer in range(TINY["layers"]):
        state[f"bl.{layer}.an"] = ones
        state[f"bl.{layer}.fn"] = ones
        state[f"bl.{layer}.q"] = normal(width, width)
        state[f"bl.{layer}.k"] = normal(keys, width)
        state[f"bl.{layer}.v"] = normal(keys, width)
        state[f"bl.{layer}.o"] = normal(width, width)
        state[f"bl.{layer}.g"] = normal(inner, width)
        state[f"bl.{layer}.u"] = normal(inner, width)
        state[f"bl.{layer}.d"] = normal(width, inner)
    return state


def trained_state(path):
    """The weights of a checkpoint and its configuration."""
    import torch

    checkpoint = torch.load(path, map_location="cpu")
    return {name: tensor.float().numpy() for name, tensor in checkpoint["model"].items()}, checkpoint["cfg"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help='a checkpoint of train.py, "random" or "recurrent"')
    parser.add_argument("out", help="the GGUF file")
    parser.add_argument("--kind", choices=sorted(gguf.TENSOR_TYPES), default="q8_0", help="how matrices are stored")
    parser.add_argument("--vocabulary", default="../tok.json")
    parser.add_argument("--template", default="../template.jinja")
    arguments = parser.parse_args()
    with open(arguments.vocabulary) as file:
        learned = json.load(file)
    with open(arguments.template) as file:
        template = file.read().strip("\n")

    kind = arguments.kind
    size_of_vocabulary = len(learned["vocab"])
    if arguments.checkpoint == "recurrent":
        # llama.cpp accepts most of them only as 32-bit numbers.
        kind, tensors = "f32", recurrent.tensors(size_of_vocabulary)
        described = recurrent.metadata(size_of_vocabulary)
    else:
        if arguments.checkpoint == "random":
            name, config, state = "Random Tiny", TINY, random_state(size_of_vocabulary)
        else:
            name = "Inference Service Demo"
            state, config = trained_state(arguments.checkpoint)
        tensors = named_tensors(state, config)
        parameters = sum(tensor.size for tensor in tensors.values())
        described = model_metadata(config, size_of_vocabulary, parameters, name, kind)
    metadata = {**described, **tokenizer_metadata(learned["vocab"], learned["merges"], template)}
    size = gguf.write(arguments.out, metadata, tensors, kind)
    print(f"{sum(tensor.size for tensor in tensors.values())} parameters, {size} bytes")


if __name__ == "__main__":
    main()
