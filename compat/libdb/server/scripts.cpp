// compat/libdb/server/scripts.cpp -- loads the library, and calls it.
#include "compat/libdb/server/scripts.h"

#include <dlfcn.h>

#include "platform/assert.h"

namespace tmh::db::server {

std::string ScriptLibrary::load(const char *path) {
  TMH_ASSERT(path != nullptr && !is_there());
  void *const at = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (at == nullptr) return ::dlerror();
  make_ = reinterpret_cast<Make>(::dlsym(at, "tp_tcl_make"));
  run_ = reinterpret_cast<Run>(::dlsym(at, "tp_tcl_run"));
  end_ = reinterpret_cast<End>(::dlsym(at, "tp_tcl_end"));
  if (make_ != nullptr && run_ != nullptr && end_ != nullptr) return {};
  make_ = nullptr;
  return std::string(path) + ": is no library of scripts";
}

int Script::run(std::string_view script, std::uint64_t ms, std::string *result) {
  TMH_ASSERT(result != nullptr);
  *result = "no interpreter";
  if (interpreter_ == nullptr) return 1;
  const char *text = nullptr;
  std::size_t bytes = 0;
  const int made = library_.run_(interpreter_, script.data(), script.size(), ms, &text, &bytes);
  result->assign(text, bytes);
  return made;
}

}  // namespace tmh::db::server
