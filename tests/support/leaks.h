// tests/support/leaks.h -- looks into the domain's shared files for slots that belong to nobody.
// Shape:     white box: every version slot is free and in the free list, or reserved by this
//            process; every access entry is free.
// Contexts:  REQUIRES: the calling process is the only participant, runs no instance and has just
//            collected.
#pragma once

#include <string>

namespace tmh::test {

void expect_no_leaked_slots(const std::string &folder);

}  // namespace tmh::test
