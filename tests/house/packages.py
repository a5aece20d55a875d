#!/usr/bin/env python3
"""packages.py --build DIR --cpack CPACK [--chroot] -- the Debian packages libtmh0, libtmh-dev and
tmh-tools.

Makes them, and looks at what is in them: each file in the right package, dependencies found by
dpkg-shlibdeps, a version that dev insists on. --chroot also installs them in a clean Debian 12
(debootstrap), as root and with a network, and there runs `tmh doctor`, the pkg-config example and
man; that downloads some 200 MB, so it is done only when TMH_LONG is set. Without any of these the
test says SKIPPED and what is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
MIRROR = os.environ.get("TMH_DEBIAN_MIRROR", "http://deb.debian.org/debian")
# Pattern of a path -> the only package that may hold it, and does.
PLACES = {
    r"\./usr/lib/.*/?libtmh\.so\.\d.*": "libtmh0",
    r"\./usr/lib/.*/?libxac\.so\.\d.*": "libtmh0",
    r"\./usr/lib/.*/?libtmh-tp\.so\.\d.*": "libtmh0",
    r"\./usr/lib/.*/?libtmh-db\.so\.\d.*": "libtmh0",
    r"\./usr/lib/.*/?libtmhperf\.so\.\d.*": "libtmh0",
    r"\./usr/lib/.*/?lib(tmh|xac|tmh-tp|tmh-db|tmhperf)\.so": "libtmh-dev",
    r"\./usr/lib/.*/?libtmh-itm/libitm\.so\.1": "libtmh-itm",
    r"\./usr/lib/.*/?libtmh-itm/libtmh-itm-pages\.so": "libtmh-itm",
    r"\./usr/include/tmh/itm\.h": "libtmh-dev",
    r"\./usr/lib/.*\.a": "libtmh-dev",
    r"\./usr/include/tmh/tmh\.hpp": "libtmh-dev",
    r"\./usr/include/xac\.h": "libtmh-dev",
    r"\./usr/include/tp\.h": "libtmh-dev",
    r"\./usr/include/tp/paper\.h": "libtmh-dev",
    r"\./usr/include/tp/bsd/db\.h": "libtmh-dev",
    r"\./usr/lib/.*/?pkgconfig/tmh-tp\.pc": "libtmh-dev",
    r"\./usr/lib/.*/?pkgconfig/tmh-db\.pc": "libtmh-dev",
    r"\./usr/lib/.*/?pkgconfig/tmh\.pc": "libtmh-dev",
    r"\./usr/lib/.*/?tmh-config\.cmake": "libtmh-dev",
    r"\./usr/share/man/man3/.*": "libtmh-dev",
    r"\./usr/share/man/man7/.*": "libtmh-dev",
    r"\./usr/share/tmh/gdb/tmh\.py": "libtmh-dev",
    r"\./usr/include/tp/server\.h": "libtmh-dev",
    r"\./usr/bin/tmh": "tmh-tools",
    r"\./usr/lib/.*/?libtmh-tcl/libtmh-tcl\.so": "tmh-tools",
    r"\./usr/share/tcltk/tp/pkgIndex\.tcl": "tmh-tools",
    r"\./usr/share/man/man1/tmh\.1": "tmh-tools",
    r"\./usr/share/tmh/schema/.*": "tmh-tools",
    r"\./usr/share/tmh/bpftrace/.*": "tmh-tools",
}
DEPENDS = {
    "libtmh0": ["libc6", "libstdc++6", "libpfm4"],
    "libtmh-dev": ["libtmh0 (= ", "libboost"],
    "libtmh-itm": ["libc6", "libstdc++6"],
    "tmh-tools": ["libpfm4", "libfmt9", "libhwloc15"],
}


def skip(reason):
    print("SKIPPED: " + reason)
    sys.exit(SKIPPED)


def run(command, **options):
    print("$", *command, flush=True)
    answer = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if answer.returncode != 0:
        raise SystemExit(f"{command[0]}: exit status {answer.returncode}\n{answer.stdout}")
    return answer.stdout


def make(arguments, folder):
    """The three files, by package name."""
    run([
        arguments.cpack,
        "-G",
        "DEB",
        "-B",
        folder,
        "--config",
        os.path.join(arguments.build, "CPackConfig.cmake"),
    ])
    packages = {
        name.split("_")[0]: os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.endswith(".deb")
    }
    if set(packages) != set(DEPENDS):
        raise SystemExit(f"cpack made {sorted(packages)}")
    return packages


def problems_of(packages):
    problems = []
    contents = {}
    for name, path in packages.items():
        listing = run(["dpkg-deb", "--contents", path])
        contents[name] = [
            line.split(maxsplit=5)[5].split(" -> ")[0] for line in listing.splitlines()
        ]
        depends = run(["dpkg-deb", "--field", path, "Depends"])
        problems += [
            f"{name} depends on no {wanted}: {depends.strip()}"
            for wanted in DEPENDS[name]
            if wanted not in depends
        ]
        if f"./usr/share/doc/{name}/copyright" not in contents[name]:
            problems.append(f"{name}: has no copyright file")
    for pattern, owner in PLACES.items():
        holders = {
            name
            for name, files in contents.items()
            if any(re.fullmatch(pattern, file) for file in files)
        }
        if holders != {owner}:
            problems.append(f"{pattern} is in {sorted(holders)}, not in {owner} alone")
    files = [file for listed in contents.values() for file in listed if not file.endswith("/")]
    problems += [
        f"{file} is in two packages" for file in sorted(set(files)) if files.count(file) > 1
    ]
    return problems


def need_chroot():
    if not os.environ.get("TMH_LONG"):
        skip("downloads a Debian 12: only with TMH_LONG=1 (./check --long)")
    if os.geteuid() != 0:
        skip("a chroot needs root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not installed")
    try:
        urllib.request.urlopen(MIRROR + "/dists/bookworm/InRelease", timeout=20).close()
    except (urllib.error.URLError, OSError) as error:
        skip(f"no network: {MIRROR}: {error}")


def in_chroot(root, *command):
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
        "HOME": "/root",
    }
    return run(["chroot", root, *command], env=environment)


def try_in_chroot(packages, root):
    run(["debootstrap", "--variant=minbase", "bookworm", root, MIRROR])
    for path in packages.values():
        shutil.copy(path, os.path.join(root, "tmp"))
    shutil.copy(os.path.join(HERE, "install", "cxx", "counter.cpp"), os.path.join(root, "tmp"))
    mounted = []
    try:
        for kind, where in (("proc", "proc"), ("sysfs", "sys")):  # tmh doctor asks both
            target = os.path.join(root, where)
            run(["mount", "-t", kind, kind, target])
            mounted.append(target)
        in_chroot(root, "apt-get", "update")
        debs = ["/tmp/" + os.path.basename(path) for path in packages.values()]
        in_chroot(
            root,
            "apt-get",
            "install",
            "-y",
            "--no-install-recommends",
            *debs,
            "g++",
            "pkg-config",
            "man-db",
            "groff-base",
        )
        doctor = in_chroot(root, "tmh", "doctor", "/tmp")
        page = in_chroot(root, "sh", "-c", "man tmh | cat; man 7 tmh-durability | cat")
        example = in_chroot(
            root,
            "sh",
            "-ec",
            "cd /tmp && g++ -std=c++20 counter.cpp -o example $(pkg-config --cflags --libs tmh) &&"
            " ./example",
        )
        perf = in_chroot(root, "tmh", "perf", "-e", "software", "--", "true")
    finally:
        for target in reversed(mounted):
            run(["umount", target])
    checks = {
        "tmh doctor": "Topology" in doctor,
        "man tmh": "doctor" in page and "DURABILITY" in page.upper(),
        "pkg-config": example.strip() == "10",
        "tmh perf": "page-faults" in perf,
    }
    return [f"in the chroot: {what} did not work" for what, works in checks.items() if not works]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cpack", required=True)
    parser.add_argument("--chroot", action="store_true")
    arguments = parser.parse_args()
    for tool in ("dpkg-deb", "dpkg-shlibdeps"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed: this is no Debian")
    if arguments.chroot:
        need_chroot()
    with tempfile.TemporaryDirectory(prefix="tmh-packages-") as folder:
        packages = make(arguments, os.path.join(folder, "packages"))
        problems = (
            try_in_chroot(packages, os.path.join(folder, "root"))
            if arguments.chroot
            else problems_of(packages)
        )
    print("\n".join(problems) or "packages: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
