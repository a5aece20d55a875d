"""How a program of -fgnu-tm is started on this project's libitm."""

METHODS = ("lines", "rtm", "serial", "pages", "pages-serializable")
NAMES_OF_GCC = ("ml_wt", "gl_wt", "htm", "serialirr", "serialirr_onwrite", "serial_onwrite")


def command(tmh, method, program):
    """tmh: the tool. Method rtm runs under the emulator: most processors have no RTM."""
    ours = [tmh, "itm", "--method", method, "--", *program]
    return [tmh, "rtm-emulate", "--native", "--", *ours] if method == "rtm" else ours
