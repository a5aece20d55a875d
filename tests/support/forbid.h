// tests/support/forbid.h -- a kernel that refuses a system call.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tmh::test {

// From here on this thread, and those that it starts, get EPERM from the system call `number`; if
// any are given, where its third argument is one of them. For good. False: this process may not
// forbid itself anything.
[[nodiscard]] inline bool try_forbid(unsigned number,
                                     std::initializer_list<std::uint32_t> third_arguments = {}) {
  const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 1, 0), allow};
  if (third_arguments.size() == 0) {
    program.push_back(refuse);
  } else {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])));
    for (const std::uint32_t value : third_arguments) {
      program.insert(program.end(), {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), refuse});
    }
    program.push_back(allow);
  }
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

inline void forbid(unsigned number, std::initializer_list<std::uint32_t> third_arguments = {}) {
  ASSERT_TRUE(try_forbid(number, third_arguments));
}

}  // namespace tmh::test
