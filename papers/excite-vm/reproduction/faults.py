"""faults.py -- 6.2.5: threads of the cache server die in transactions, at the request of its load,
which looks at every value. The paper starts its server anew for each of 1,000 faults; here one
server lives through all of them, so what a death leaves behind meets the next one.
"""

import json
import os
import re
import signal
import socket
import subprocess

PROGRAMS = "examples/itm"
LIBRARIES = "libtmh-itm"
FILES = [f"{LIBRARIES}/libitm.so.1", f"{LIBRARIES}/libtmh-itm-pages.so",
         f"{PROGRAMS}/cache_server", f"{PROGRAMS}/cache_client"]
METHODS = ("pages", "pages-serializable")
GCC = "gcc ml_wt"
SECTION = {"bench": "reproduce", "section": "faults"}
COUNTS = ("faults", "torn", "outdated", "lost", "errors", "disconnects", "operations",
          "operations_per_second", "recovery_ms_max")
# Only tell that something hangs.
ANSWER_MAX_S, RUN_MAX_S = 60, 600


def environment_on(build, contestant):
    """As bench/itm and `tmh itm` set it."""
    own = os.environ.copy()
    own["ITM_DEFAULT_METHOD"] = contestant.removeprefix("gcc ")
    if contestant in METHODS:
        folder = os.path.join(build, LIBRARIES)
        own["LD_PRELOAD"] = f"{folder}/libtmh-itm-pages.so:{folder}/libitm.so.1"
        own["LD_BIND_NOW"] = "1"
        own["LD_LIBRARY_PATH"] = folder
    return own


def possible(build):
    """Methods that bench/itm finds possible here."""
    path = os.path.join(build, "bench", "itm")
    ran = subprocess.run([path, "--list"], capture_output=True, text=True, check=False)
    return [each for each in (GCC, *METHODS) if f"on {each}\n" in ran.stdout]


def deaths(host, port):
    """What the server says of itself."""
    answer = b""
    with socket.create_connection((host, port), ANSWER_MAX_S) as connection:
        connection.sendall(b"stats\r\n")
        while not answer.endswith(b"END\r\n"):
            more = connection.recv(1 << 16)
            if not more:
                raise ConnectionError("the server ends a connection")
            answer += more
    return int(re.search(rb"STAT thread_deaths (\d+)", answer)[1])


def run_on(build, contestant, client_arguments):
    """A row. `server`: how it ended; only SIGTERM at the end of the run makes that "0"."""
    programs = os.path.join(build, PROGRAMS)
    said, check = None, "it says nothing"
    row = {**SECTION, "contestant": contestant, "threads": 2}
    command = [f"{programs}/cache_server", "--port", "0", "--threads", "2", "--memory", "512",
               "--allow-faults"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment_on(build, contestant)) as server:
        try:
            place = re.fullmatch(r"listening on (.*):(\d+)\n", server.stdout.readline())
            if not place:
                return {**row, "failure": "the server does not start"}
            said = subprocess.run(
                [f"{programs}/cache_client", "--connect", f"{place[1]}:{place[2]}", "--threads",
                 "2", "--verify", *client_arguments], capture_output=True, text=True, check=False,
                timeout=RUN_MAX_S)
            if said.stdout:
                counted = json.loads(said.stdout)
                row.update({key: counted[key] for key in COUNTS})
                check = counted["check"]
                row["slowest_answer_ms"] = counted["latency_us"]["max"] / 1e3
                row["thread_deaths"] = deaths(place[1], int(place[2]))
            server.send_signal(signal.SIGTERM)
            server.wait(ANSWER_MAX_S)
        except (OSError, subprocess.TimeoutExpired) as problem:
            if contestant in METHODS:
                row["failure"] = str(problem)
        finally:
            if server.poll() is None:
                server.kill()
        complaint = server.stderr.read().strip()
    status = server.returncode
    row["server"] = str(status) if status >= 0 else signal.Signals(-status).name
    if contestant in METHODS and "failure" not in row and (said.returncode != 0 or status != 0):
        row["failure"] = (f"the client ends with {said.returncode}, the server with "
                          f"{row['server']}: {said.stderr.strip() or check} {complaint}")
    return row


def run(options, experiment):
    arguments = experiment.arguments(options.mode)
    contestants = possible(options.build)
    if not contestants:
        return None
    return [run_on(options.build, each, arguments) for each in contestants]
