#!/usr/bin/env python3
"""tinystm.py ROOT --cmake CMAKE -- what the CMake variables TMH_TINYSTM and TMH_2PLSF accept, and
that anything else is refused with its reason.

Folders are planted; cmake/tinystm.cmake and cmake/2plsf.cmake judge them. The programs themselves
are not needed.
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
# Of each variable: name of a folder -> files in it, and what the refusal must say; None: accepted
TINYSTM_FOLDERS = {
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
PLSF_FOLDERS = {
    "a folder with a space": ({"stms/2PLSF.hpp": "namespace twoplsf {}\n"}, None),
    "another place": ({"2PLSF.hpp": "namespace twoplsf {}\n"}, "there is no stms/2PLSF.hpp"),
    "header is a folder": ({"stms/2PLSF.hpp/x": ""}, "there is no stms/2PLSF.hpp"),
}
SETTINGS = [
    ("TMH_TINYSTM", "tinystm.cmake", TINYSTM_FOLDERS),
    ("TMH_2PLSF", "2plsf.cmake", PLSF_FOLDERS),
]


def judge(arguments, variable, script, folder):
    answer = subprocess.run(
        [
            arguments.cmake,
            f"-D{variable}={folder}",
            "-P",
            os.path.join(arguments.root, "cmake", script),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return answer.returncode == 0, " ".join(answer.stdout.split())  # messages are wrapped


def wrong_of(arguments, variable, script, folders):
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, (files, reason) in folders.items():
            folder = os.path.join(scratch, name)
            source_tree.plant(folder, files)
            accepted, text = judge(arguments, variable, script, folder)
            if accepted != (reason is None) or (
                reason is not None and (reason not in text or name.split()[-1] not in text)
            ):
                wrong.append(f"{name}: wanted {reason or 'no refusal'}, got {text or 'nothing'}")
        for folder, accepted_wanted in (("", True), (os.path.join(scratch, "nowhere"), False)):
            if judge(arguments, variable, script, folder)[0] != accepted_wanted:
                wrong.append(f"{variable}='{folder}': accepted is not {accepted_wanted}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cmake", required=True)
    arguments = parser.parse_args()
    wrong = [text for setting in SETTINGS for text in wrong_of(arguments, *setting)]
    count = sum(len(folders) + 2 for _, _, folders in SETTINGS)
    print("\n".join(wrong) if wrong else f"{count} settings judged as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
