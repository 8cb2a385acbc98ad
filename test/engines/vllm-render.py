"""Starts vLLM's own server for rendering, which holds no weights: usage: vllm-render.py [OPTION OF VLLM]..."""

import uvloop
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.entrypoints.launchers.render.entry import run_launch_fastapi
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    options = make_arg_parser(FlexibleArgumentParser()).parse_args()
    validate_parsed_serve_args(options)
    uvloop.run(run_launch_fastapi(options))
