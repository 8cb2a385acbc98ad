"""A tiny model with random weights whose layers keep their input in one recurrent state (Mamba), for tests."""

import numpy as np

import gguf

WIDTH = 32
LAYERS = 2
INNER = 2 * WIDTH
CONVOLUTION = 4
STATE = 8
RANK = 2
CONTEXT = 4096


def tensors(vocabulary_size):
    """Weights that are always the same, large enough that early input still changes the output."""
    random = np.random.default_rng(0)

    def normal(scale, *shape):
        return (random.standard_normal(shape) * scale).astype(np.float32)

    made = {"token_embd.weight": normal(0.3, vocabulary_size, WIDTH)}
    for layer in range(LAYERS):
        for name, tensor in {
            "attn_norm.weight": np.ones(WIDTH, np.float32),
            "ssm_in.weight": normal(0.3, 2 * INNER, WIDTH),
            "ssm_conv1d.weight": normal(0.4, INNER, CONVOLUTION),
            "ssm_conv1d.bias": normal(0.1, INNER),
            "ssm_x.weight": normal(0.3, RANK + 2 * STATE, INNER),
            "ssm_dt.weight": normal(0.1, INNER, RANK),
            "ssm_dt.bias": normal(0.1, INNER),
            "ssm_a": np.tile(-0.01 * np.arange(1, STATE + 1, dtype=np.float32), (INNER, 1)),
            "ssm_d": np.ones(INNER, np.float32),
            "ssm_out.weight": normal(0.3, WIDTH, INNER),
        }.items():
            made[f"blk.{layer}.{name}"] = tensor
    made["output_norm.weight"] = np.ones(WIDTH, np.float32)
    return made


def metadata(vocabulary_size):
    return {
        "general.architecture": gguf.text("mamba"),
        "general.type": gguf.text("model"),
        "general.name": gguf.text("Random Tiny Recurrent"),
        "general.file_type": gguf.uint32(0),
        "mamba.block_count": gguf.uint32(LAYERS),
        "mamba.context_length": gguf.uint32(CONTEXT),
        "mamba.embedding_length": gguf.uint32(WIDTH),
        "mamba.feed_forward_length": gguf.uint32(0),
        "mamba.attention.head_count": gguf.uint32(0),
        "mamba.attention.layer_norm_rms_epsilon": gguf.float32(1e-5),
        "mamba.ssm.conv_kernel": gguf.uint32(CONVOLUTION),
        "mamba.ssm.inner_size": gguf.uint32(INNER),
        "mamba.ssm.state_size": gguf.uint32(STATE),
        "mamba.ssm.time_step_rank": gguf.uint32(RANK),
        "mamba.vocab_size": gguf.uint32(vocabulary_size),
    }
