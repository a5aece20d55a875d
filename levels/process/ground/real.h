// levels/process/ground/real.h -- the C library's functions, behind those of this library that have
// their names.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

// A function that the program finds before the C library's.
#define TMH_EXPORTED [[gnu::visibility("default")]]

namespace tmh::itm::pages {

// version: where the C library has several, the one that programs are linked with.
[[nodiscard]] inline void *find_real(const char *name, const char *version = nullptr) noexcept {
  void *const found =
      version != nullptr ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "libitm (tmh): the C library has no %s\n", name);
    std::abort();
  }
  return found;
}

}  // namespace tmh::itm::pages

// The C library's function of that name. Two threads may look it up at once: they find the same.
#define TMH_REAL_OF(name, version)                                                              \
  ([]() noexcept {                                                                              \
    static constinit decltype(&::name) real = nullptr;                                          \
    if (real == nullptr) [[unlikely]]                                                           \
      real = reinterpret_cast<decltype(&::name)>(::tmh::itm::pages::find_real(#name, version)); \
    return real;                                                                                \
  }())
#define TMH_REAL(name) TMH_REAL_OF(name, nullptr)
