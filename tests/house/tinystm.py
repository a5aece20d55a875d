#!/usr/bin/env python3
"""tinystm.py ROOT --cmake CMAKE -- what the CMake variable TMH_TINYSTM accepts, and that anything
else is refused with its reason.

Folders are planted; cmake/tinystm.cmake judges them. TinySTM itself is not needed.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import source_tree

HEADER = (
    "#ifndef _STM_H_\n# define STM_VERSION                    \"%s\"\n# define STM_VERSION_NB      "
    "           %d\n#endif\n"
)
LIBRARY = {"lib/libstm.a": "!<arch>\n"}
# name of a folder -> files in it, and what the refusal must say; None: accepted
FOLDERS = {
    "1.0.4": ({"include/stm.h": HEADER % ("1.0.4", 104), **LIBRARY}, None),
    "1.0.5, a folder with a space": ({"include/stm.h": HEADER % ("1.0.5", 105), **LIBRARY}, None),
    "1.0.3": (
        {"include/stm.h": HEADER % ("1.0.3", 103), **LIBRARY},
        "is not that of TinySTM 1.0.4 or later",
    ),
    "another stm.h": (
        {"include/stm.h": "int stm;\n", **LIBRARY},
        "is not that of TinySTM 1.0.4 or later",
    ),
    "not built": ({"include/stm.h": HEADER % ("1.0.4", 104)}, "there is no lib/libstm.a"),
    "without a header": (LIBRARY, "there is no include/stm.h"),
    "header is a folder": ({"include/stm.h/x": "", **LIBRARY}, "there is no include/stm.h"),
}


def judge(arguments, folder):
    answer = subprocess.run(
        [
            arguments.cmake,
            f"-DTMH_TINYSTM={folder}",
            "-P",
            os.path.join(arguments.root, "cmake", "tinystm.cmake"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return answer.returncode == 0, " ".join(answer.stdout.split())  # messages are wrapped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cmake", required=True)
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, (files, reason) in FOLDERS.items():
            folder = os.path.join(scratch, name)
            source_tree.plant(folder, files)
            accepted, text = judge(arguments, folder)
            if accepted != (reason is None) or (
                reason is not None and (reason not in text or name.split()[-1] not in text)
            ):
                wrong.append(f"{name}: wanted {reason or 'no refusal'}, got {text or 'nothing'}")
        for folder, accepted_wanted in (("", True), (os.path.join(scratch, "nowhere"), False)):
            if judge(arguments, folder)[0] != accepted_wanted:
                wrong.append(f"'{folder}': accepted is not {accepted_wanted}")
    print(
        "\n".join(wrong)
        if wrong
        else f"{len(FOLDERS) + 2} settings of TMH_TINYSTM judged as they should be"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
