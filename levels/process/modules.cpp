// levels/process/modules.cpp -- by their names.
#include "levels/process/modules.h"

#include <string_view>

namespace tmh::itm::pages {

bool is_cxx_runtime(const char *path) noexcept {
  return std::string_view(path).find("/libstdc++.so") != std::string_view::npos;
}

// Their locks and lists are not made for several processes.
bool is_runtime_module(const char *path) noexcept {
  const std::string_view all = path;
  const std::string_view name = all.substr(all.rfind('/') + 1);
  for (const std::string_view each :
       {"ld-linux", "ld.so", "libc.so", "libc-", "libm.so", "libm-", "libgcc_s", "libstdc++",
        "libitm", "libtmh", "libpthread", "libdl.so", "librt.so", "linux-vdso"})
    if (name.substr(0, each.size()) == each) return true;
  return false;
}

}  // namespace tmh::itm::pages
