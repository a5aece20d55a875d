// tools/main.cpp -- the tmh command.
#include "tools/commands.h"

int main(int argc, char **argv) { return tmh::tools::run_command_line(argc, argv); }
