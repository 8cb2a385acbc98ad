"""Writes a GGUF file of a Llama with Q8_0 matrices as a folder in the Hugging Face format, which vLLM and SGLang load.

usage: export-hf.py MODEL.gguf FOLDER

The weights are those of the file, as 32-bit floats. Vocabulary, merges and chat template are in the file, too.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

F32, F16, Q8_0 = 0, 1, 8
Q8_BLOCK = 32
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
CONTROL, USER_DEFINED = 3, 4

# The split of words before merging in the vocabularies that GGUF files call "qwen2".
WORDS = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
}

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Reader:
    """Reads the values of a GGUF file in sequence."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.number("I"), self.number("Q")
            return [self.value(item) for _ in range(count)]
        return self.number(SCALARS[kind])


def read_gguf(path):
    """The metadata of a file, and its tensors as 32-bit floats, both by name."""
    reader = Reader(Path(path).read_bytes())
    if reader.data[:4] != b"GGUF":
        sys.exit(f"{path} is no GGUF file")
    reader.at = 8
    tensor_count, entry_count = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(entry_count):
        key = reader.string()
        metadata[key] = reader.value(reader.number("I"))
    infos = []
    for _ in range(tensor_count):
        name = reader.string()
        shape = [reader.number("Q") for _ in range(reader.number("I"))][::-1]
        infos.append((name, shape, reader.number("I"), reader.number("Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-reader.at // alignment) * alignment
    return metadata, {name: tensor(reader.data, shape, kind, start + at) for name, shape, kind, at in infos}


def tensor(data, shape, kind, at):
    """A tensor as 32-bit floats. A block of Q8_0 is a 16-bit scale and 32 signed bytes."""
    count = int(np.prod(shape))
    if kind == F32:
        return np.frombuffer(data, "<f4", count, at).reshape(shape).copy()
    if kind == F16:
        return np.frombuffer(data, "<f2", count, at).reshape(shape).astype(np.float32)
    if kind != Q8_0:
        sys.exit(f"tensors of type {kind} are not read")
    block = np.dtype([("scale", "<f2"), ("values", "i1", Q8_BLOCK)])
    blocks = np.frombuffer(data, block, count // Q8_BLOCK, at)
    return (blocks["scale"].astype(np.float32)[:, None] * blocks["values"]).reshape(shape)


def halves(weight, heads):
    """The rows of a projection with rotary pairs in two halves of each head; a GGUF file has each pair side by side."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def weights(tensors, layers, heads, kv_heads):
    named = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
    }
    for layer in range(layers):
        for short, name in LAYER_NAMES.items():
            weight = tensors[f"blk.{layer}.{short}.weight"]
            if short in ("attn_q", "attn_k"):
                weight = halves(weight, heads if short == "attn_q" else kv_heads)
            named[f"model.layers.{layer}.{name}.weight"] = weight
    return named


def model_config(metadata, vocabulary_size):
    def of(key):
        return metadata[f"llama.{key}"]

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": vocabulary_size,
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "head_dim": of("attention.key_length"),
        "rms_norm_eps": round(of("attention.layer_norm_rms_epsilon"), 9),
        "rope_theta": of("rope.freq_base"),
        "max_position_embeddings": of("context_length"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        # The file has no separate output matrix.
        "tie_word_embeddings": True,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def tokenizer(metadata):
    vocabulary = metadata["tokenizer.ggml.tokens"]
    kinds = metadata["tokenizer.ggml.token_type"]
    added = [
        {
            "id": at,
            "content": vocabulary[at],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for at, kind in enumerate(kinds)
        if kind in (CONTROL, USER_DEFINED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    words = {"type": "Split", "pattern": {"Regex": WORDS[metadata["tokenizer.ggml.pre"]]}, "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{**words, "behavior": "Isolated"}, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: at for at, text in enumerate(vocabulary)},
            "merges": [merge.split(" ", 1) for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(metadata):
    vocabulary = metadata["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": vocabulary[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": vocabulary[metadata["tokenizer.ggml.eos_token_id"]],
        "pad_token": vocabulary[metadata["tokenizer.ggml.padding_token_id"]],
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata["llama.context_length"],
        "chat_template": metadata["tokenizer.chat_template"],
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    metadata, tensors = read_gguf(sys.argv[1])
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    heads = metadata["llama.attention.head_count"]
    kv_heads = metadata["llama.attention.head_count_kv"]
    named = weights(tensors, metadata["llama.block_count"], heads, kv_heads)
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    files = {
        "config.json": model_config(metadata, len(metadata["tokenizer.ggml.tokens"])),
        "generation_config.json": {"eos_token_id": metadata["tokenizer.ggml.eos_token_id"]},
        "tokenizer.json": tokenizer(metadata),
        "tokenizer_config.json": tokenizer_config(metadata),
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
