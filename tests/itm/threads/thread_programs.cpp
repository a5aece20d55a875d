// tests/itm/threads/thread_programs.cpp -- runs one program with threads and prints its verdict.
// Shape:     thread_programs --list | --expected | NAME
//            --list names; --expected "name<TAB>verdict"; NAME prints the verdict. Exit code 0, or
//            2 for a wrong command line.
#include <cstdio>
#include <string>

#include "tests/itm/program.h"

int main(int argc, char **argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  for (const itm::Program &each : itm::programs()) {
    if (what == "--list") std::printf("%s\n", each.name);
    if (what == "--expected") std::printf("%s\t%s\n", each.name, each.expected);
    if (what == each.name) {
      std::printf("%s\n", each.run().c_str());
      return 0;
    }
  }
  if (what == "--list" || what == "--expected") return 0;
  std::fputs("usage: thread_programs --list | --expected | NAME\n", stderr);
  return 2;
}
