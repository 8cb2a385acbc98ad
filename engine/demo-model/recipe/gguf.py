"""Writes GGUF files, version 3, and reads the tensors of those that it wrote."""

import struct

import numpy as np

ALIGNMENT = 32
F32 = 0
F16 = 1
Q8_0 = 8
Q8_BLOCK = 32
TENSOR_TYPES = {"f32": F32, "f16": F16, "q8_0": Q8_0}

UINT32 = 4
INT32 = 5
FLOAT32 = 6
BOOLEAN = 7
STRING = 8
ARRAY = 9


def string(text):
    encoded = text.encode("utf-8")
    return struct.pack("<Q", len(encoded)) + encoded


def uint32(value):
    return struct.pack("<II", UINT32, value)


def float32(value):
    return struct.pack("<If", FLOAT32, value)


def boolean(value):
    return struct.pack("<IB", BOOLEAN, int(value))


def text(value):
    return struct.pack("<I", STRING) + string(value)


def texts(values):
    return struct.pack("<IIQ", ARRAY, STRING, len(values)) + b"".join(string(value) for value in values)


def int32s(values):
    return struct.pack("<IIQ", ARRAY, INT32, len(values)) + np.asarray(values, "<i4").tobytes()


def quantised(array):
    """Blocks of 32 values as a 16-bit scale and 32 signed bytes."""
    blocks = array.reshape(-1, Q8_BLOCK).astype(np.float32)
    scales = (np.abs(blocks).max(1) / 127).astype(np.float16)
    exact = scales.astype(np.float32)
    inverse = np.where(exact > 0, 1 / np.where(exact > 0, exact, 1), 0)
    values = np.clip(np.rint(blocks * inverse[:, None]), -127, 127).astype(np.int8)
    packed = np.empty((len(blocks), 2 + Q8_BLOCK), np.uint8)
    packed[:, :2] = scales.view(np.uint8).reshape(-1, 2)
    packed[:, 2:] = values.view(np.uint8)
    return packed.tobytes()


def tensor_bytes(array, kind):
    """The type and bytes of a tensor; vectors always stay 32-bit."""
    if array.ndim == 1 or kind == "f32":
        return F32, array.tobytes()
    if kind == "f16":
        return F16, array.astype(np.float16).tobytes()
    return Q8_0, quantised(array)


def padded(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write(path, metadata, tensors, kind):
    """Writes encoded metadata and float tensors, both by name; returns the size of the file in bytes."""
    infos = []
    blobs = []
    offset = 0
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor, np.float32)
        tensor_type, data = tensor_bytes(array, kind)
        shape = b"".join(struct.pack("<Q", size) for size in reversed(array.shape))
        infos.append(string(name) + struct.pack("<I", array.ndim) + shape + struct.pack("<IQ", tensor_type, offset))
        blobs.append(padded(data))
        offset += len(blobs[-1])
    entries = b"".join(string(key) + value for key, value in metadata.items())
    header = padded(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + entries + b"".join(infos))
    with open(path, "wb") as file:
        file.write(header + b"".join(blobs))
    return len(header) + offset


FIXED_SIZES = {UINT32: 4, INT32: 4, FLOAT32: 4, BOOLEAN: 1}


def read_tensors(path):
    """The tensors by name, as 32-bit floats."""
    with open(path, "rb") as file:
        data = file.read()
    position = 8

    def take(format):
        nonlocal position
        values = struct.unpack_from("<" + format, data, position)
        position += struct.calcsize("<" + format)
        return values if len(values) > 1 else values[0]

    def take_text():
        nonlocal position
        length = take("Q")
        position += length
        return data[position - length : position].decode("utf-8")

    def skip(kind):
        nonlocal position
        if kind == STRING:
            take_text()
        elif kind == ARRAY:
            member, count = take("IQ")
            for _ in range(count):
                skip(member)
        else:
            position += FIXED_SIZES[kind]

    tensor_count, entry_count = take("QQ")
    for _ in range(entry_count):
        take_text()
        skip(take("I"))
    infos = []
    for _ in range(tensor_count):
        name = take_text()
        shape = [take("Q") for _ in range(take("I"))]
        infos.append((name, shape[::-1], take("I"), take("Q")))
    begin = position + -position % ALIGNMENT
    return {name: unpacked(data, begin + offset, shape, kind) for name, shape, kind, offset in infos}


def unpacked(data, offset, shape, kind):
    """A tensor as 32-bit floats."""
    count = int(np.prod(shape))
    if kind != Q8_0:
        return np.frombuffer(data, np.float32 if kind == F32 else np.float16, count, offset).astype(np.float32).reshape(shape)
    blocks = count // Q8_BLOCK
    packed = np.frombuffer(data, np.uint8, blocks * (2 + Q8_BLOCK), offset).reshape(blocks, 2 + Q8_BLOCK)
    scales = packed[:, :2].copy().view(np.float16).astype(np.float32)
    return (packed[:, 2:].copy().view(np.int8).astype(np.float32) * scales).reshape(shape)
