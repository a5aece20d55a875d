"""How a program of -fgnu-tm is started on this project's libitm."""

METHODS = ("lines", "rtm", "serial", "pages", "pages-serializable")


def command(tmh, method, program):
    """tmh: the tool. Method rtm runs under the emulator: most processors have no RTM."""
    ours = [tmh, "itm", "--method", method, "--", *program]
    return [tmh, "rtm-emulate", "--native", "--", *ours] if method == "rtm" else ours
