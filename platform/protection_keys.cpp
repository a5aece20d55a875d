// platform/protection_keys.cpp -- taking the process's key.
#include "platform/protection_keys.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace tmh::platform {

namespace {

struct Taken {
  int key = kNoKey;
  int error = 0;
};

// A forked child keeps its parent's keys, so the key is taken once.
const Taken &taken() noexcept {
  static const Taken once = [] {
    const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    return key >= 0 ? Taken{key, 0} : Taken{kNoKey, errno};
  }();
  return once;
}

// The child runs no instance, whatever its parent's thread ran.
void shut_in_child() noexcept {
  if (taken().key != kNoKey) set_key_access(taken().key, KeyAccess::kShut);
}

}  // namespace

int process_key() noexcept {
  static const bool is_handled = pthread_atfork(nullptr, nullptr, shut_in_child) == 0;
  return is_handled ? taken().key : kNoKey;
}

std::string key_refusal() {
  switch (const int error = taken().error) {
    case 0:
      return {};
    case ENOSPC:
      return "the process has used up its protection keys";
    case ENOSYS:
      return "the kernel was built without protection keys, or a sandbox hides them";
    case EINVAL:
      return "the processor has no protection keys, or the kernel does not use them (no 'ospke' in "
             "/proc/cpuinfo)";
    default:
      return std::string("pkey_alloc: ") + std::strerror(error);
  }
}

}  // namespace tmh::platform
