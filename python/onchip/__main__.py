# SPDX-License-Identifier: Apache-2.0
"""The command `onchip` where pip installed it: the program beside this package's library."""
import os
import pathlib
import sys

from onchip.library import name_cuda


def main():
    program = pathlib.Path(__file__).resolve().parent / "bin" / "onchip"
    if not program.exists():
        sys.exit(f"onchip: no command at {program}: it comes with 'pip install .' in onchip's sources")
    name_cuda()
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
